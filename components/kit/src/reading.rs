//! The tools with which a Scout's model reads the repository. Answers are bounded plain text; lines are counted from 1 as in
//! reports.

use crate::inventory::Inventory;
use crate::json;
use crate::paths::clean;
use crate::quoting::{cut, numbered};
use crate::world::{Entry, Repository, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Maximum size of one answer, and of all answers of an inquiry, in bytes.
const ANSWER: usize = 6 * 1024;
const ALL_ANSWERS: usize = 24 * 1024;
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
            "List files below a directory.",
            r#"{"type":"object","properties":{"path":{"type":"string"}}}"#,
        ),
        tool(
            "read",
            "Read lines of a file, 1-based, inclusive.",
            r#"{"type":"object","properties":{"path":{"type":"string"},"start":{"type":"integer"},"end":{"type":"integer"}},"required":["path"]}"#,
        ),
        tool(
            "search",
            "Find lines by regular expression.",
            r#"{"type":"object","properties":{"pattern":{"type":"string"},"glob":{"type":"string"}},"required":["pattern"]}"#,
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

    pub(crate) fn run(&mut self, name: &str, arguments: &str) -> Result<String, String> {
        if self.is_spent() {
            return Err("no more reading in this inquiry: call report now".to_owned());
        }
        let most = ANSWER.min(ALL_ANSWERS - self.spent);
        let answer = match name {
            "list" => self.list(&parse::<List>(arguments)?, most),
            "read" => self.read(&parse::<Read>(arguments)?, most)?,
            "search" => self.search(&parse::<Search>(arguments)?, most)?,
            _ => return Err(format!("no tool {name}: there are list, read, search and report")),
        };
        // Every answer costs at least 512 bytes of the budget, so that empty answers end as well.
        self.spent += answer.len().max(512);
        Ok(answer)
    }

    fn list(&self, List { path }: &List, most: usize) -> String {
        let directory = clean(path);
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let below = |file: &&Entry| file.path.starts_with(&prefix) || file.path == directory;
        let files = self.inventory.files.iter().filter(below).cloned().collect();
        Inventory { files, links: vec![], truncated: self.inventory.truncated }.outline(most)
    }

    fn read(&self, Read { path, start, end }: &Read, most: usize) -> Result<String, String> {
        let path = clean(path);
        let bytes = self
            .repository
            .read(&[&path], FILE)
            .pop()
            .unwrap_or_else(|| Err("no answer".to_owned()))?;
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().count();
        let first = start.unwrap_or(1).max(1);
        if lines > 0 && first > lines {
            return Err(format!("{path} has {lines} lines"));
        }
        Ok(numbered(&text, first, end.unwrap_or(usize::MAX), most))
    }

    fn search(&self, Search { pattern, glob }: &Search, most: usize) -> Result<String, String> {
        let found = self.repository.search(pattern, glob.as_deref(), HITS)?;
        let mut out = String::new();
        for hit in &found.items {
            let line = format!("{}:{}| {}\n", hit.path, hit.line, cut(hit.text.trim(), 160));
            if out.len() + line.len() > most {
                break;
            }
            out.push_str(&line);
        }
        if found.items.is_empty() {
            out.push_str("no line matches\n");
        }
        if found.truncated {
            out.push_str("… there are more\n");
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
        let repository = Files::of(&[("a/b.py", "one\ntwo\nthree\n"), ("long", &text)]);
        let inventory = Inventory::of(&repository).unwrap();
        let mut reader = Reader::new(&repository, &inventory);
        let arguments = r#"{"path":"./a/b.py","start":2}"#;
        assert_eq!(reader.run("read", arguments).unwrap(), "2| two\n3| three\n");
        assert_eq!(
            reader.run("search", r#"{"pattern":"t"}"#).unwrap(),
            "a/b.py:2| two\na/b.py:3| three\n"
        );
        assert!(reader.run("list", "").unwrap().contains("a/b.py (14 bytes)"));
        assert!(reader.run("read", r#"{"path":"no"}"#).is_err());
        assert!(reader.run("read", r#"{"start":1}"#).unwrap_err().contains("missing field `path`"));
        assert!(reader.run("shell", "{}").unwrap_err().starts_with("no tool shell"));
        let mut answers = 0;
        while !reader.is_spent() {
            let answer = reader.run("read", r#"{"path":"long"}"#).unwrap();
            assert!(answer.len() <= ANSWER + 40);
            answers += 1;
        }
        assert_eq!(answers, 4);
        assert!(reader.run("list", "").is_err());
    }
}
