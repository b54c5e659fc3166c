//! Characters that a reader cannot see for what they are: they control a terminal, break lines, reverse the direction of
//! text, or have no width. There is one list for all uses, so that no output shows what another one hides.

/// Returns whether a character is a control (of ASCII and Latin-1, including tab and line feed), a separator, a
/// bidirectional mark or invisible.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
