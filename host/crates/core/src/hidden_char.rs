//! Characters that a reader does not see as what they are: they act on a terminal, break lines, turn the direction of
//! text, or have no width. One list, so that no place shows what another one hides.

/// Controls (of ASCII and Latin-1, tab and line feed among them), separators, bidirectional marks, and what is not shown.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
