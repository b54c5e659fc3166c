//! A long text on one short line: its first words, cut where the line ends.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use act_core::terminal_text;

/// At most `columns` wide, with a mark where something was left out.
pub(super) fn excerpt(text: &str, columns: usize) -> String {
    let words: Vec<_> = text.split_whitespace().take(columns.max(1)).collect();
    let line = terminal_text::line(&words.join(" ")).into_owned();
    if line.width() <= columns {
        return line;
    }
    let (mut cut, mut wide) = (String::new(), 1);
    for c in line.chars() {
        wide += c.width().unwrap_or(0);
        if wide > columns {
            break;
        }
        cut.push(c);
    }
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_by_its_width_and_stays_on_its_line() {
        // CLI-8, security line 165
        assert_eq!(excerpt("fix\n\nthe  parser", 20), "fix the parser");
        assert_eq!(excerpt("fix the parser", 8), "fix the…");
        assert_eq!(excerpt("你好你好", 5), "你好…");
        assert_eq!(excerpt("\u{1b}[2Ja\u{202e}b", 20), "a\\u{202e}b");
        assert_eq!(excerpt("anything", 0), "…");
    }
}
