//! The tools with which a Scout's model reads the repository. Answers are bounded plain text; lines are counted from 1 as in
//! reports.

use crate::inventory::Inventory;
use crate::json;
use crate::paths::clean;
use crate::quoting::{cut, numbered};
use crate::world::{Entry, Refusal, Repository, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Size of one answer, and of all answers of an inquiry, in bytes. Lines that would be left over are added to an answer
/// (see [`numbered`]), and the last answer may use a whole [`ANSWER`], so that no answer is cut to nothing.
const ANSWER: usize = 6 * 1024;
const ALL_ANSWERS: usize = 24 * 1024;
/// Cost of the smallest answer, so that an inquiry of empty answers ends as well.
const LEAST: usize = 512;
/// Maximum number of bytes of a file that are read. A Scout does not see what follows.
const FILE: u64 = 256 * 1024;
const HITS: usize = 60;

pub(crate) fn tools() -> [Tool; 3] {
    let tool = |name: &str, description: &str, parameters: &str| Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: parameters.to_owned(),
    };
    [
        tool(
            "list",
            "List the files below a directory, with their sizes.",
            r#"{"type":"object","properties":{"path":{"type":"string","description":"directory; the whole repository without it"}}}"#,
        ),
        tool(
            "read",
            "Read lines of a file. Lines count from 1; start and end are included.",
            r#"{"type":"object","properties":{"path":{"type":"string"},"start":{"type":"integer"},"end":{"type":"integer"}},"required":["path"]}"#,
        ),
        tool(
            "search",
            "Find lines by a regular expression.",
            r#"{"type":"object","properties":{"pattern":{"type":"string"},"glob":{"type":"string","description":"only files like src/**/*.py"}},"required":["pattern"]}"#,
        ),
    ]
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    path: String,
}

#[derive(Deserialize)]
struct Read {
    path: String,
    start: Option<usize>,
    end: Option<usize>,
}

#[derive(Deserialize)]
struct Search {
    pattern: String,
    glob: Option<String>,
}

/// Runs the reading tools until their budget is spent.
pub(crate) struct Reader<'a> {
    pub(crate) repository: &'a dyn Repository,
    pub(crate) inventory: &'a Inventory,
    spent: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(repository: &'a dyn Repository, inventory: &'a Inventory) -> Self {
        Self { repository, inventory, spent: 0 }
    }

    /// Returns whether the budget is spent.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent >= ALL_ANSWERS
    }

    /// Runs one call. The answer ends with what is left of the budget.
    pub(crate) fn run(&mut self, name: &str, arguments: &str) -> Result<String, String> {
        if self.is_spent() {
            return Err("the reading budget is used up: call report now".to_owned());
        }
        let mut answer = match name {
            "list" => self.list(&parse::<List>(arguments)?)?,
            "read" => self.read(&parse::<Read>(arguments)?)?,
            "search" => self.search(&parse::<Search>(arguments)?)?,
            _ => return Err(format!("no tool {name}: there are list, read, search and report")),
        };
        self.spent += answer.len().max(LEAST);
        let left = ALL_ANSWERS.saturating_sub(self.spent).div_ceil(1024);
        answer.push_str(&format!("({left} of {} kB left)\n", ALL_ANSWERS / 1024));
        Ok(answer)
    }

    fn list(&self, List { path }: &List) -> Result<String, String> {
        let directory = clean(path);
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let below = |file: &&Entry| file.path.starts_with(&prefix) || file.path == directory;
        let files = self.inventory.files.iter().filter(below).cloned().collect::<Vec<_>>();
        if files.is_empty() {
            return Err(format!("there is no file below {:?}", cut(&directory, 120)));
        }
        // The number of names that are not UTF-8 is known for the whole repository alone.
        let not_utf8 = if directory.is_empty() { self.inventory.not_utf8 } else { 0 };
        let truncated = self.inventory.truncated;
        let listed = Inventory { files, links: vec![], truncated, not_utf8 };
        Ok(listed.outline(ANSWER))
    }

    fn read(&self, Read { path, start, end }: &Read) -> Result<String, String> {
        let path = clean(path);
        let bytes = self
            .repository
            .read(&[&path], FILE)
            .pop()
            .unwrap_or_else(|| Err("no answer".to_owned()))?;
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().count();
        if lines == 0 {
            return Err(format!("{path} is empty"));
        }
        let first = start.unwrap_or(1).max(1);
        let last = end.unwrap_or(lines).min(lines);
        if first > last {
            return Err(format!("{path} has {lines} lines; {first} to {last} are none of them"));
        }
        let more = if bytes.len() as u64 == FILE { "more than " } else { "" };
        let header = format!("{path} · lines {first}-{last} of {more}{lines}\n");
        Ok(header + &numbered(&text, first, last, ANSWER))
    }

    fn search(&self, Search { pattern, glob }: &Search) -> Result<String, String> {
        let found = self.repository.search(pattern, glob.as_deref(), HITS)?;
        let (mut out, mut shown) = (String::new(), 0);
        for hit in &found.items {
            let line = format!("{}:{}| {}\n", hit.path, hit.line, cut(hit.text.trim_end(), 160));
            if out.len() + line.len() > ANSWER && !out.is_empty() {
                break;
            }
            out.push_str(&line);
            shown += 1;
        }
        if found.items.is_empty() {
            let why = self.repository.without_hits(glob.as_deref()).map_err(Refusal::message)?;
            out.push_str(&format!("{why}\n"));
        }
        if found.truncated || shown < found.items.len() {
            out.push_str("… there are more: narrow the pattern or the glob\n");
        }
        Ok(out)
    }
}

/// # Errors
///
/// Returns what does not fit, for the model.
fn parse<T: DeserializeOwned>(arguments: &str) -> Result<T, String> {
    json::arguments(arguments).map_err(|why| format!("wrong arguments: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Files;

    // SCOUT-2
    #[test]
    fn tools_show_numbered_lines_and_end_when_the_budget_is_spent() {
        let text = "line\n".repeat(5_000);
        let repository =
            Files::of(&[("a/b.py", "one\ntwo\nthree\n"), ("long", &text), ("empty", "")]);
        let inventory = Inventory::of(&repository).unwrap();
        let mut reader = Reader::new(&repository, &inventory);
        let arguments = r#"{"path":"./a/b.py","start":2}"#;
        assert_eq!(
            reader.run("read", arguments).unwrap(),
            "a/b.py · lines 2-3 of 3\n2| two\n3| three\n(24 of 24 kB left)\n"
        );
        assert_eq!(
            reader.run("search", r#"{"pattern":"t"}"#).unwrap(),
            "a/b.py:2| two\na/b.py:3| three\n(23 of 24 kB left)\n"
        );
        assert!(reader.run("list", "").unwrap().contains("a/b.py (14 bytes)"));
        assert!(reader.run("read", r#"{"path":"no"}"#).is_err());
        let none = |answer: Result<String, String>| answer.unwrap_err();
        assert_eq!(none(reader.run("list", r#"{"path":"c"}"#)), "there is no file below \"c\"");
        assert_eq!(none(reader.run("read", r#"{"path":"empty"}"#)), "empty is empty");
        let backwards = r#"{"path":"a/b.py","start":3,"end":2}"#;
        assert!(none(reader.run("read", backwards)).starts_with("a/b.py has 3 lines; 3 to 2"));
        assert!(
            reader.run("search", r#"{"pattern":"zz"}"#).unwrap().starts_with("no line matches\n")
        );
        let elsewhere = r#"{"pattern":"t","glob":"c/**"}"#;
        assert!(reader.run("search", elsewhere).unwrap().starts_with("no file matches the glob"));
        assert!(reader.run("read", r#"{"start":1}"#).unwrap_err().contains("missing field `path`"));
        assert!(reader.run("shell", "{}").unwrap_err().starts_with("no tool shell"));
        let mut answers = 0;
        while !reader.is_spent() {
            let answer = reader.run("read", r#"{"path":"long"}"#).unwrap();
            assert!(answer.len() <= ANSWER + 120, "{}", answer.len());
            answers += 1;
        }
        assert_eq!(answers, 4);
        assert!(reader.run("list", "").unwrap_err().starts_with("the reading budget is used up"));
    }

    // SCOUT-2: live, the last two lines of a file cost another request.
    #[test]
    fn the_last_lines_of_a_file_are_not_left_over() {
        let text = "a line that is somewhat longer than most\n".repeat(144);
        let repository = Files::of(&[("a.py", &text)]);
        let inventory = Inventory::of(&repository).unwrap();
        let mut reader = Reader::new(&repository, &inventory);
        let answer = reader.run("read", r#"{"path":"a.py"}"#).unwrap();
        assert!(answer.contains("\n144| ") && !answer.contains("cut"), "{answer}");
    }
}
