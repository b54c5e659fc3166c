//! What the user asked for, parsed once and never changed afterwards.
//!
//! A line that is just `Constraints:`, `Non-goals:` or `Boundaries:` opens a section that reaches to the
//! next such line. Nothing in a section is dropped: a line without a list marker continues the item right
//! above it and is an item of its own elsewhere, because a rule that got lost would be worse than one that
//! is said twice.

use super::boundary::{self, Boundary, Reading};
use act_core::Failure;

/// More than anybody types, small enough to be repeated to the model.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRequest {
    text: String,
    constraints: Vec<String>,
    non_goals: Vec<String>,
    boundaries: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("task is empty")]
    Empty,
    #[error("task has {bytes} bytes, more than {MAX_TEXT_BYTES}")]
    TooLarge { bytes: usize },
    #[error(
        "Boundaries: cannot enforce {item:?}: it names a path, but it is neither a list of paths nor `do not touch` \
         with a list of paths"
    )]
    BoundaryUnclear { item: String, path: String },
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        let (code, hint) = match &error {
            RequestError::Empty => (
                "task_empty",
                "say what is to be done, e.g. `act run \"fix the failing test\"`".to_owned(),
            ),
            RequestError::TooLarge { .. } => (
                "task_too_large",
                "put long material into a file of the repository and name the file".to_owned(),
            ),
            RequestError::BoundaryUnclear { path, .. } => {
                let path = path.trim_start_matches('!');
                (
                    "boundary_unclear",
                    format!(
                        "write `{path}` to allow only that path, `!{path}` to forbid it; move a rule in words to \
                         `Constraints:`"
                    ),
                )
            }
        };
        Self::refused(code, error.to_string()).hint(hint)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Task,
    Constraints,
    NonGoals,
    Boundaries,
}

impl TaskRequest {
    /// Refuses a text that asks for nothing; sections alone are no task.
    pub fn parse(text: &str) -> Result<Self, RequestError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(RequestError::TooLarge { bytes: text.len() });
        }
        let mut request = Self {
            text: text.trim().to_owned(),
            constraints: vec![],
            non_goals: vec![],
            boundaries: vec![],
        };
        let mut section = Section::Task;
        let mut asks = false;
        let mut continues = false;
        for line in text.lines() {
            if let Some(opened) = header(line) {
                (section, continues) = (opened, false);
                continue;
            }
            let Some(items) = request.items(section) else {
                asks |= !line.trim().is_empty();
                continue;
            };
            let (item, marked) = unmarked(line);
            match items.last_mut() {
                _ if item.is_empty() => {}
                Some(above) if continues && !marked => {
                    above.push(' ');
                    above.push_str(item);
                }
                _ => items.push(item.to_owned()),
            }
            continues = !item.is_empty();
        }
        if asks { Ok(request) } else { Err(RequestError::Empty) }
    }

    /// The whole text, sections included, as the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn constraints(&self) -> &[String] {
        &self.constraints
    }

    pub fn non_goals(&self) -> &[String] {
        &self.non_goals
    }

    pub fn boundaries(&self) -> &[String] {
        &self.boundaries
    }

    /// The boundaries that the host enforces, each with the paths that it names. The others hold no path and are for
    /// the model alone. `find` returns where a path that the user names is, from the root, or `None` when nothing has
    /// that name.
    ///
    /// # Errors
    ///
    /// `BoundaryUnclear` when an item names a path in a form that is not enforced: guessing could turn a prohibition
    /// into a permission.
    pub fn enforced(
        &self,
        find: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<(&str, Boundary)>, RequestError> {
        let mut enforced = vec![];
        for item in &self.boundaries {
            match boundary::read(item, &find) {
                Reading::Enforced(boundary) => enforced.push((item.as_str(), boundary)),
                Reading::ForTheModel => {}
                Reading::Unclear { path } => {
                    return Err(RequestError::BoundaryUnclear { item: item.clone(), path });
                }
            }
        }
        Ok(enforced)
    }

    fn items(&mut self, section: Section) -> Option<&mut Vec<String>> {
        match section {
            Section::Task => None,
            Section::Constraints => Some(&mut self.constraints),
            Section::NonGoals => Some(&mut self.non_goals),
            Section::Boundaries => Some(&mut self.boundaries),
        }
    }
}

fn header(line: &str) -> Option<Section> {
    let line = line.trim();
    let sections = [
        ("constraints:", Section::Constraints),
        ("non-goals:", Section::NonGoals),
        ("boundaries:", Section::Boundaries),
    ];
    sections
        .into_iter()
        .find(|(name, _)| line.eq_ignore_ascii_case(name))
        .map(|(_, section)| section)
}

/// The line without its list marker (`-`, `*`, `+`, `1.`, `1)`), and whether it had one.
fn unmarked(line: &str) -> (&str, bool) {
    let line = line.trim();
    let number = line.bytes().take_while(u8::is_ascii_digit).count();
    let marker = match line.as_bytes().get(number) {
        Some(b'.' | b')') if number > 0 => number + 1,
        Some(b'-' | b'*' | b'+') if number == 0 => 1,
        _ => return (line, false),
    };
    let Some(rest) = line.get(marker..) else { return (line, false) };
    // Without a space it is a word, like `*.rs` or `-v`.
    if rest.is_empty() || rest.starts_with([' ', '\t']) {
        (rest.trim(), true)
    } else {
        (line, false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
Make the parser accept dates.

constraints:
- keep the public API
  as it is
* no new dependency
NON-GOALS:
1. speed
2) Windows

Boundaries:
- src/parse/
- `docs`
- *.toml
- leave src/old alone
";

    #[test]
    fn sections_are_found_in_any_case_and_items_in_any_marker() {
        // TASK-2, TASK-3
        let request = TaskRequest::parse(TEXT).unwrap();
        assert_eq!(request.constraints(), ["keep the public API as it is", "no new dependency"]);
        assert_eq!(request.non_goals(), ["speed", "Windows"]);
        assert_eq!(request.boundaries(), ["src/parse/", "`docs`", "*.toml", "leave src/old alone"]);
        assert_eq!(request.text(), TEXT.trim());
    }

    #[test]
    fn boundaries_that_are_paths_are_enforced() {
        // TASK-5
        let request = TaskRequest::parse(TEXT).unwrap();
        let only = |path: &str| Boundary { only: vec![path.to_owned()], ..Boundary::default() };
        let never = Boundary { never: vec!["src/old".to_owned()], ..Boundary::default() };
        let expected = [
            ("src/parse/", only("src/parse/")),
            ("`docs`", only("docs")),
            ("*.toml", only("*.toml")),
            ("leave src/old alone", never),
        ];
        let find = |name: &str| (name == "src").then(|| name.to_owned());
        assert_eq!(request.enforced(find).unwrap(), expected);
    }

    #[test]
    fn a_boundary_that_names_a_path_in_other_words_is_refused_with_the_spelling_that_counts() {
        // TASK-5
        for item in ["- src/**\nis off limits", "- keep src/** as it is"] {
            let request = TaskRequest::parse(&format!("do\nBoundaries:\n{item}")).unwrap();
            let failure = Failure::from(request.enforced(|_| None).unwrap_err());
            assert_eq!((failure.code, failure.exit as u8), ("boundary_unclear", 1));
            let hint = failure.hint.unwrap();
            assert!(hint.contains("`src/**`") && hint.contains("`!src/**`"), "{hint}");
        }
        let request =
            TaskRequest::parse("do\nBoundaries:\n- do not touch\n  docs/\n- be quick").unwrap();
        let never = Boundary { never: vec!["docs/".to_owned()], ..Boundary::default() };
        assert_eq!(request.enforced(|_| None).unwrap(), [("do not touch docs/", never)]);
    }

    #[test]
    fn lines_without_marker_are_not_lost() {
        // TASK-4
        let request = TaskRequest::parse(
            "do it\nConstraints:\nno new files\n\nno threads\n- a\n\nb\n-v stays",
        )
        .unwrap();
        assert_eq!(request.constraints(), ["no new files", "no threads", "a", "b -v stays"]);
    }

    #[test]
    fn a_section_named_twice_goes_on() {
        let request =
            TaskRequest::parse("do\nConstraints:\n- a\nNon-goals:\n- b\nConstraints:\n- c")
                .unwrap();
        assert_eq!(request.constraints(), ["a", "c"]);
        assert_eq!(request.non_goals(), ["b"]);
    }

    #[test]
    fn a_word_in_a_sentence_opens_no_section() {
        let request = TaskRequest::parse("Constraints: none\nthe Boundaries: of it").unwrap();
        assert!(request.constraints().is_empty() && request.boundaries().is_empty());
    }

    #[test]
    fn a_text_that_asks_for_nothing_is_refused() {
        // TASK-6
        for text in ["", " \n\t", "Constraints:\n- keep quiet\n"] {
            assert_eq!(TaskRequest::parse(text), Err(RequestError::Empty), "{text:?}");
        }
        let failure = Failure::from(RequestError::Empty);
        assert_eq!((failure.code, failure.message.as_str()), ("task_empty", "task is empty"));
        assert!(failure.hint.is_some());
    }

    #[test]
    fn a_text_beyond_the_bound_is_refused() {
        // TASK-7
        assert!(TaskRequest::parse(&"x".repeat(MAX_TEXT_BYTES)).is_ok());
        let bytes = MAX_TEXT_BYTES + 1;
        assert_eq!(TaskRequest::parse(&"x".repeat(bytes)), Err(RequestError::TooLarge { bytes }));
    }

    proptest! {
        #[test]
        fn every_word_of_a_section_is_kept(lines in prop::collection::vec("[-*+ 1.)a-c]{0,8}", 0..8)) {
            let text = format!("task\nConstraints:\n{}", lines.join("\n"));
            let letters = |text: &str| text.chars().filter(char::is_ascii_lowercase).collect::<String>();
            let request = TaskRequest::parse(&text).unwrap();
            prop_assert_eq!(letters(&request.constraints().concat()), letters(&lines.concat()));
        }
    }
}
