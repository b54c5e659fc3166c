//! Where the text of a task comes from.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use act_agent::editor::{MAX_TEXT_BYTES, RequestError};
use act_core::Failure;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    Words(String),
    Stdin,
    File(PathBuf),
}

impl Source {
    /// The parser has made sure that there is exactly one.
    pub(super) fn of(text: Option<String>, file: Option<PathBuf>) -> Self {
        match (text, file) {
            (Some(dash), None) if dash == "-" => Self::Stdin,
            (_, Some(dash)) if dash.as_os_str() == "-" => Self::Stdin,
            (_, Some(file)) => Self::File(file),
            (text, None) => Self::Words(text.unwrap_or_default()),
        }
    }

    pub(super) fn read(self) -> Result<String, Failure> {
        match self {
            Self::Words(text) => Ok(text),
            Self::Stdin => text("standard input", bytes(io::stdin().lock())),
            Self::File(path) => {
                text(&path.display().to_string(), File::open(&path).and_then(bytes))
            }
        }
    }
}

/// One byte beyond the bound is enough to know that the text is too large.
fn bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    from.take(MAX_TEXT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text(name: &str, bytes: io::Result<Vec<u8>>) -> Result<String, Failure> {
    let bytes = bytes.map_err(|error| {
        Failure::refused("task_unreadable", format!("failed to read the task from {name}: {error}"))
            .hint("name a file with the text of the task, or `-` for standard input")
    })?;
    if bytes.len() > MAX_TEXT_BYTES {
        // What was read is enough for the refusal; the end may be half a character.
        return Err(RequestError::TooLarge { bytes: bytes.len() }.into());
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::refused("task_unreadable", format!("the task from {name} is not UTF-8 text"))
            .hint("save it as UTF-8")
    })?;
    // Some editors put a mark of the encoding in front; it is no word of the task.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_is_standard_input_and_a_file_wins_over_nothing() {
        assert_eq!(Source::of(Some("-".into()), None), Source::Stdin);
        assert_eq!(Source::of(Some("fix -".into()), None), Source::Words("fix -".into()));
        // CLI-4
        assert_eq!(Source::of(None, Some("-".into())), Source::Stdin);
        assert_eq!(Source::of(None, Some("./-".into())), Source::File("./-".into()));
    }

    #[test]
    fn a_text_is_read_up_to_its_bound_and_must_be_utf_8() {
        assert_eq!(text("x", bytes("täsk".as_bytes())).unwrap(), "täsk");
        // CLI-5
        let marked = "\u{feff}Constraints:\r\n- a\r\n\r\nConstraints:";
        assert_eq!(
            text("x", bytes(marked.as_bytes())).unwrap(),
            marked.trim_start_matches('\u{feff}')
        );
        assert_eq!(text("x", bytes("\u{feff}".as_bytes())).unwrap(), "");
        let endless = text("x", bytes(io::repeat(b'x'))).unwrap_err();
        assert_eq!(endless.code, "task_too_large");
        assert_eq!(text("x", bytes(&b"\xff"[..])).unwrap_err().code, "task_unreadable");
        let missing = Source::File("/nonexistent/task.md".into()).read().unwrap_err();
        assert_eq!(missing.code, "task_unreadable");
    }
}
