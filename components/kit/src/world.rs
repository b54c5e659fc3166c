//! The services for a component: a repository to read, a model to ask, and a host to which it reports progress.
//!
//! The types are those that are generated from `wit/`. The traits are the host's interfaces, so that the same component
//! runs against the real host ([`crate::host`]) and against one in memory ([`crate::testing`]).

use std::collections::BTreeMap;

pub use crate::bindings::agentcommand::model::chat::{
    Stop, Tool, ToolCall as Call, ToolResult as Answer, Turn, Usage,
};
pub use crate::bindings::agentcommand::progress::progress::Advice;
pub use crate::bindings::agentcommand::repo::history::{Change, Changes};
pub use crate::bindings::agentcommand::repo::read::{
    Chunk, Counted, Entries, Entry, Hit, Hits, Kind, Pattern, Selection, Slice,
};
pub use crate::bindings::agentcommand::repo::symbols::{
    Edge as Import, Outline, SummaryTable, Symbol,
};
pub use crate::bindings::agentcommand::types::types::{Refusal, Version};
pub use crate::bindings::exports::agentcommand::scout::scout::{Failure, Question};

/// Entries of a listing, and what is missing in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Sorted by path.
    pub items: Vec<Entry>,
    /// Whether there are more, apart from those that `not_utf8` counts.
    pub truncated: bool,
    /// Number of names that are not UTF-8, so that no path names them. A directory counts once.
    pub not_utf8: u64,
}

/// Items of a listing or a search, and whether there are more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<T> {
    pub items: Vec<T>,
    pub truncated: bool,
}

impl Changes {
    /// Returns the changes with the paths of their files; the newest is first.
    pub fn newest_first(&self) -> impl Iterator<Item = (u32, Vec<&str>)> {
        self.items.iter().map(|change| {
            let files = change.files.iter().filter_map(|file| self.path(*file));
            (change.age, files.collect())
        })
    }

    /// Returns how often each file was changed, and how many commits ago it was changed last.
    pub fn each_file(&self) -> BTreeMap<&str, Touched> {
        let mut files = BTreeMap::new();
        for (age, changed) in self.newest_first() {
            for file in changed {
                files.entry(file).or_insert(Touched { times: 0, age }).times += 1;
            }
        }
        files
    }

    /// Returns how many commits changed another file together with one of `paths`. A commit that changed several of
    /// `paths` counts once.
    pub fn together_with(&self, paths: &[&str]) -> BTreeMap<&str, u32> {
        let mut counts = BTreeMap::new();
        for (_, changed) in self.newest_first() {
            if changed.iter().any(|file| paths.contains(file)) {
                for file in changed.into_iter().filter(|file| !paths.contains(file)) {
                    *counts.entry(file).or_insert(0) += 1;
                }
            }
        }
        counts
    }

    fn path(&self, file: u32) -> Option<&str> {
        self.paths.get(file as usize).map(String::as_str)
    }
}

/// How often the commits of an answer changed a file, and how many commits lie between the last of them and `HEAD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touched {
    pub times: u32,
    pub age: u32,
}

impl Refusal {
    /// The refusal as a sentence.
    pub fn message(self) -> String {
        match self {
            Self::NotFound => "not found".to_owned(),
            Self::Stale => "the repository changed meanwhile".to_owned(),
            Self::Invalid(why) | Self::Denied(why) | Self::Limit(why) | Self::Failed(why) => why,
        }
    }
}

/// The repository as the host shows it. The required methods are the functions of `repo/read`, `repo/symbols` and
/// `repo/history`; the provided ones go through all pages.
pub trait Repository {
    /// Returns one page of a listing with the cursor of the next page, and the number of names that are not UTF-8.
    ///
    /// # Errors
    ///
    /// The host's refusal.
    fn list_page(&self, want: &Selection, cursor: Option<&str>) -> Result<Counted, Refusal>;

    /// Reads slices of files; one answer for each, in order.
    fn read_slices(&self, want: &[Slice]) -> Vec<Result<Chunk, Refusal>>;

    /// Returns one page of a search, and the cursor of the next page.
    ///
    /// # Errors
    ///
    /// The host's refusal.
    fn search_page(
        &self,
        want: &Pattern,
        within: &Selection,
        cursor: Option<&str>,
    ) -> Result<Hits, Refusal>;

    /// Returns outlines of files, one answer for each, in order. The host may refuse the last ones with `call_bytes`.
    fn outline_page(&self, paths: &[String]) -> Vec<Result<Outline, Refusal>>;

    /// Returns the languages that the host can parse.
    fn languages(&self) -> Vec<String>;

    /// Returns summaries of files as a table, in order. Rows for the last files may be missing. A summary names the definitions
    /// whose names contain one of `names`, in either case.
    fn summary_table(&self, paths: &[String], names: &[String]) -> SummaryTable;

    /// Tells the host what [`Repository::summary_table`] is going to be asked for. It only saves time.
    fn expect_summaries(&self, paths: &[String], names: &[String]);

    /// Returns which files in view each of at most `limit` commits changed, from `HEAD` on. The host looks at 2,000 commits at
    /// most. Without git the answer is empty. The manifest has to ask for `repo.history`.
    ///
    /// # Errors
    ///
    /// The host's refusal of a component that was not granted `repo.history` and `repo.read`.
    fn recent_changes(&self, limit: u32) -> Result<Changes, Refusal>;

    /// Lists entries, at most `most`. `truncated` says that there are more, or that the host did not look further.
    ///
    /// # Errors
    ///
    /// The host's refusal of any page.
    fn list_all(&self, want: &Selection, most: usize) -> Result<Names, Refusal> {
        let mut not_utf8 = 0;
        let Found { items, truncated } = all_pages(most, |cursor| {
            let Counted { entries, not_utf8: of_page } = self.list_page(want, cursor)?;
            not_utf8 += of_page;
            let Entries { items, next, truncated } = entries;
            Ok((Found { items, truncated }, next))
        })?;
        Ok(Names { items, truncated, not_utf8 })
    }

    /// Lists the files and links of the whole repository, sorted by path, at most `most`.
    ///
    /// # Errors
    ///
    /// The host's refusal, as a sentence.
    fn list(&self, most: usize) -> Result<Names, String> {
        let kinds = vec![Kind::File, Kind::Link];
        let want = Selection { under: vec![], globs: vec![], kinds };
        self.list_all(&want, most).map_err(Refusal::message)
    }

    /// Reads the first `most` bytes of files; one answer for each, in order.
    fn read(&self, paths: &[&str], most: u64) -> Vec<Result<Vec<u8>, String>> {
        let slice = |path: &&str| Slice {
            path: (*path).to_owned(),
            offset: 0,
            length: Some(most),
            with_version: false,
        };
        let chunks = self.read_slices(&paths.iter().map(slice).collect::<Vec<_>>()).into_iter();
        chunks.map(|chunk| chunk.map(|chunk| chunk.bytes).map_err(Refusal::message)).collect()
    }

    /// Finds lines that match, at most `most`.
    ///
    /// # Errors
    ///
    /// The host's refusal of any page.
    fn find_all(
        &self,
        pattern: &Pattern,
        glob: Option<&str>,
        most: usize,
    ) -> Result<Found<Hit>, Refusal> {
        let globs = glob.map(str::to_owned).into_iter().collect();
        let within = Selection { under: vec![], globs, kinds: vec![] };
        all_pages(most, |cursor| {
            let Hits { items, next, truncated } = self.search_page(pattern, &within, cursor)?;
            Ok((Found { items, truncated }, next))
        })
    }

    /// Says why a search found no line: no file matches the glob, or no line of those files matches.
    ///
    /// # Errors
    ///
    /// The host's refusal of the listing.
    fn without_hits(&self, glob: Option<&str>) -> Result<&'static str, Refusal> {
        let Some(glob) = glob else { return Ok("no line matches") };
        let globs = vec![glob.to_owned()];
        let within = Selection { under: vec![], globs, kinds: vec![Kind::File] };
        let found = self.list_all(&within, 1)?;
        let is_empty = found.items.is_empty() && !found.truncated && found.not_utf8 == 0;
        Ok(match is_empty {
            true => "no file matches the glob, so nothing was searched",
            false => "no line matches in the files of the glob",
        })
    }

    /// Finds lines that match a regular expression, at most `most`.
    ///
    /// # Errors
    ///
    /// The host's refusal, as a sentence.
    fn search(&self, regex: &str, glob: Option<&str>, most: usize) -> Result<Found<Hit>, String> {
        let pattern = Pattern { regex: regex.to_owned(), ignore_case: false, multi_line: false };
        self.find_all(&pattern, glob, most).map_err(Refusal::message)
    }

    /// Returns the outline of each file, in order, or `None` for a file without a parser.
    fn outlines(&self, paths: &[&str]) -> Vec<Option<Outline>> {
        each(paths, |paths| self.outline_page(paths))
    }
}

/// One page, and the cursor of the next.
type Page<T> = (Found<T>, Option<String>);

/// Asks for pages until there are no more or more than `most` items.
fn all_pages<T>(
    most: usize,
    mut page: impl FnMut(Option<&str>) -> Result<Page<T>, Refusal>,
) -> Result<Found<T>, Refusal> {
    let mut found = Found { items: Vec::new(), truncated: false };
    let mut cursor = None;
    loop {
        let (more, next) = page(cursor.as_deref())?;
        found.items.extend(more.items);
        found.truncated |= more.truncated;
        cursor = next;
        if cursor.is_none() || found.items.len() > most {
            break;
        }
    }
    found.truncated |= cursor.is_some() || found.items.len() > most;
    found.items.truncate(most);
    Ok(found)
}

/// Returns one answer for each path. What did not fit into the host's answer is asked for again, as long as each answer
/// holds at least one.
fn each<T: Clone>(
    paths: &[&str],
    ask: impl Fn(&[String]) -> Vec<Result<T, Refusal>>,
) -> Vec<Option<T>> {
    let mut answers = Vec::with_capacity(paths.len());
    while answers.len() < paths.len() {
        let rest = &paths[answers.len()..];
        let rest = rest.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let mut answered = 0;
        for answer in ask(&rest) {
            match answer {
                Ok(answer) => answers.push(Some(answer)),
                Err(Refusal::Limit(why)) if why.starts_with("call_bytes") && answered > 0 => break,
                Err(_) => answers.push(None),
            }
            answered += 1;
        }
        if answered == 0 {
            break;
        }
    }
    answers.resize(paths.len(), None);
    answers
}

/// The one configured model.
pub trait Model {
    /// Opens a conversation. The model is asked nothing yet.
    fn open(&self, system: &str, tools: &[Tool]) -> Box<dyn Conversation>;
}

/// A conversation with the model.
pub trait Conversation {
    /// Adds a message of the user role; it is sent with the next turn.
    fn say(&self, text: &str);

    /// Answers all calls of the last turn.
    ///
    /// # Errors
    ///
    /// When an id is unknown, missing or there twice.
    fn answer(&self, answers: Vec<Answer>) -> Result<(), String>;

    /// Asks the model for a turn.
    ///
    /// # Errors
    ///
    /// When the model was not granted, a limit is reached, or the provider did not deliver.
    fn next(&self) -> Result<Turn, String>;
}

/// How the host is informed while a query runs.
pub trait Progress {
    /// Shows a line to the user and returns the host's advice.
    fn step(&self, message: &str) -> Advice;
    /// Writes a warning into the log.
    fn warn(&self, message: &str);
    /// Returns the milliseconds that are left of the query's time.
    fn time_left(&self) -> u64;
}

/// Everything that a component is given.
#[derive(Clone, Copy)]
pub struct World<'a> {
    pub repository: &'a dyn Repository,
    pub model: &'a dyn Model,
    pub progress: &'a dyn Progress,
}

impl Question {
    /// Returns a text that the host added, unless it is missing or blank.
    pub fn context(&self, name: &str) -> Option<&str> {
        let found = self.context.iter().find(|(found, _)| found == name);
        found.map(|(_, text)| text.as_str()).filter(|text| !text.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Files;

    #[test]
    fn files_that_change_together_are_counted() {
        let files = Files::of(&[]).changed(&[&["a", "b"], &["c"], &["a", "b", "c"], &["a"]]);
        let changes = files.recent_changes(100).unwrap();
        assert_eq!(changes.together_with(&["a"]), BTreeMap::from([("b", 2), ("c", 1)]));
        assert_eq!(changes.together_with(&["a", "b"]), BTreeMap::from([("c", 1)]));
        let each = changes.each_file();
        assert_eq!(each["a"], Touched { times: 3, age: 0 });
        assert_eq!(each["c"], Touched { times: 2, age: 1 });
        let few = files.recent_changes(1).unwrap();
        assert_eq!(few.newest_first().collect::<Vec<_>>(), [(0, vec!["a", "b"])]);
        assert!(matches!(Files::of(&[]).recent_changes(1), Err(Refusal::Denied(_))));
    }
}
