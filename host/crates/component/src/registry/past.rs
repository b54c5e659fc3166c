//! What components did in tasks, out of the journals: what they used and how often they were refused something.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use serde::Deserialize;

/// Of one journal; what comes after is not looked at.
const MAX_BYTES: u64 = 256 << 20;
const MAX_LINE: u64 = 1 << 20;

/// One component over a number of tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    pub queries: u64,
    pub tasks: u64,
    /// UTC, ISO 8601.
    pub last_used: Option<String>,
    pub denials: u64,
    /// Names of grants.
    pub grants: BTreeSet<String>,
    /// Entries of the root that files were read in; none when they were too many to tell.
    pub parts: Option<BTreeSet<String>>,
    pub origins: BTreeSet<String>,
    pub env: BTreeSet<String>,
    /// The most that one query needed.
    pub most_calls: u64,
    pub most_tokens: u64,
}

/// A line of a journal, as far as it is of interest.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    time: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    sha256: String,
    #[serde(default)]
    grants: Vec<String>,
    #[serde(default)]
    files: u64,
    #[serde(default)]
    parts: Vec<String>,
    #[serde(default)]
    model_calls: u64,
    #[serde(default)]
    model_tokens: u64,
    #[serde(default)]
    origins: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    denials: u64,
}

/// By name and digest. Journals are of one task each; one that cannot be read tells nothing.
pub fn past(journals: impl IntoIterator<Item = File>) -> BTreeMap<(String, String), Past> {
    let mut all = BTreeMap::new();
    for journal in journals {
        let mut here = BTreeSet::new();
        lines(journal, |line| {
            let key = (line.name.clone(), line.sha256.clone());
            let past: &mut Past = all.entry(key.clone()).or_default();
            past.tasks += u64::from(here.insert(key));
            past.add(line);
        });
    }
    all
}

impl Past {
    fn add(&mut self, line: Line) {
        let parts = self.parts.get_or_insert_default();
        if line.files > 0 && line.parts.is_empty() {
            // An entry that nothing has: from now on it is not known.
            parts.insert("*".to_owned());
        }
        parts.extend(line.parts);
        self.queries += 1;
        self.denials += line.denials;
        self.grants.extend(line.grants);
        self.origins.extend(line.origins);
        self.env.extend(line.env);
        self.most_calls = self.most_calls.max(line.model_calls);
        self.most_tokens = self.most_tokens.max(line.model_tokens);
        self.last_used = self.last_used.take().max(Some(line.time));
    }

    /// Parts that all reading stayed in, if that is known.
    pub fn known_parts(&self) -> Option<&BTreeSet<String>> {
        self.parts.as_ref().filter(|parts| !parts.contains("*") && !parts.is_empty())
    }
}

fn lines(journal: File, mut each: impl FnMut(Line)) {
    let mut reader = BufReader::new(journal.take(MAX_BYTES));
    let mut bytes = vec![];
    loop {
        bytes.clear();
        match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes) {
            Ok(1..) => {}
            _ => return,
        }
        let word = b"\"component_used\"";
        if !bytes.windows(word.len()).any(|window| window == word) {
            continue;
        }
        if let Ok(line) = serde_json::from_slice::<Line>(&bytes)
            && line.kind == "component_used"
        {
            each(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    fn journal(lines: &[&str]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(lines.join("\n").as_bytes()).unwrap();
        file.rewind().unwrap();
        file
    }

    // CAPABILITY-30
    #[test]
    fn what_was_used_is_added_up_over_tasks() {
        let used = |time: &str, more: &str| {
            format!(
                r#"{{"time":"{time}","type":"component_used","name":"x","sha256":"aa",{more}}}"#
            )
        };
        let first = used(
            "2026-11-20",
            r#""grants":["repo.read"],"files":2,"parts":["src"],"model_calls":3"#,
        );
        let second = used(
            "2026-11-21",
            r#""grants":["llm"],"files":1,"parts":["docs"],"denials":2,"model_calls":1"#,
        );
        let journals = [
            journal(&[
                &first,
                "not json \"component_used\"",
                &first,
                r#"{"type":"edit","path":"\"component_used\""}"#,
            ]),
            journal(&[&second]),
        ];
        let all = past(journals);
        assert_eq!(all.len(), 1);
        let x = &all[&("x".to_owned(), "aa".to_owned())];
        assert_eq!((x.queries, x.tasks, x.denials, x.most_calls), (3, 2, 2, 3));
        assert_eq!(x.last_used.as_deref(), Some("2026-11-21"));
        assert_eq!(x.grants.iter().collect::<Vec<_>>(), ["llm", "repo.read"]);
        assert_eq!(x.known_parts().unwrap().iter().collect::<Vec<_>>(), ["docs", "src"]);
        let many = used("2026-11-22", r#""files":99,"parts":[]"#);
        assert_eq!(past([journal(&[&first, &many])]).values().next().unwrap().known_parts(), None);
    }
}
