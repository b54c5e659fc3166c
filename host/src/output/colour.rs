//! Whether a stream gets colour.

/// What `--color` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ColourWish {
    #[default]
    Auto,
    Always,
    Never,
}

/// What the process finds around itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings {
    pub(super) terminal: bool,
    /// `NO_COLOR` is set and not empty.
    pub(super) no_color: bool,
    /// `TERM` is `dumb`.
    pub(super) dumb: bool,
}

/// A word on the command line wins over `NO_COLOR`, and that over what the stream is.
pub(super) fn wanted(wish: ColourWish, around: Surroundings) -> bool {
    match wish {
        ColourWish::Always => true,
        ColourWish::Never => false,
        ColourWish::Auto => around.terminal && !around.no_color && !around.dumb,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMINAL: Surroundings = Surroundings { terminal: true, no_color: false, dumb: false };

    #[test]
    fn automatic_colour_needs_a_capable_terminal_and_no_objection() {
        assert!(wanted(ColourWish::Auto, TERMINAL));
        assert!(!wanted(ColourWish::Auto, Surroundings { terminal: false, ..TERMINAL }));
        assert!(!wanted(ColourWish::Auto, Surroundings { no_color: true, ..TERMINAL }));
        assert!(!wanted(ColourWish::Auto, Surroundings { dumb: true, ..TERMINAL }));
    }

    #[test]
    fn the_option_wins_over_the_environment() {
        let pipe = Surroundings { terminal: false, no_color: true, dumb: true };
        assert!(wanted(ColourWish::Always, pipe));
        assert!(!wanted(ColourWish::Never, TERMINAL));
    }
}
