//! Quotes a text as one word of a shell, in commands that are printed to be copied.
//!
//! Not `shlex`: it leaves a leading dash, which a program reads as an option, and it fails on a NUL byte.

/// Quotes a text, which may come from a repository.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ',' | '=' | '@')
    };
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_word_means_anything_to_a_shell() {
        for plain in ["/r/x.wasm", "a_b-c+1,d=e@f"] {
            assert_eq!(shell_word(plain), plain);
        }
        for (text, word) in
            [("", "''"), ("-rf", "'-rf'"), ("a b", "'a b'"), ("$(x);'\n", "'$(x);'\\''\n'")]
        {
            assert_eq!(shell_word(text), word);
        }
    }
}
