//! A host in memory for a component's own tests: files, a model that follows a script, and a record of what was sent.

use crate::bindings::agentcommand::repo::symbols::{ImportRow, Span, SummaryRow, SymbolRow};
use crate::summaries::KINDS;
use crate::tool::{Change, EditError, EditableRepository, Operation, Reason};
use crate::world::{
    Advice, Answer, Call, Changes, Chunk, Conversation, Counted, Entries, Entry, Hit, Hits, Kind,
    Model, Outline, Pattern, Progress, Refusal, Repository, Selection, Slice, Stop, SummaryTable,
    Symbol, Tool, Turn, Usage, Version, World,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Entries on one page of a listing: few, so that tests go through several pages.
const PAGE: usize = 100;

/// A file and the number of its version.
#[derive(Debug, Clone)]
struct File {
    bytes: Vec<u8>,
    version: u64,
}

/// A repository in memory. The digest of a file is its content.
#[derive(Debug, Default)]
pub struct Files {
    files: RefCell<BTreeMap<String, File>>,
    outlines: BTreeMap<String, Outline>,
    links: BTreeMap<String, String>,
    read_limit: Option<usize>,
    foreign_write: RefCell<Option<(String, Vec<u8>)>>,
    refusals: RefCell<Vec<(Operation, String, Reason)>>,
    changes: Option<Changes>,
    not_utf8: u64,
    expected: Cell<usize>,
}

impl Files {
    /// Returns a repository of text files, each at version 1.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let repository = Self::default();
        for (path, text) in files {
            repository.insert(path, 1, text.as_bytes().to_vec());
        }
        repository
    }

    /// Returns the number of files whose summaries were expected.
    pub fn expected(&self) -> usize {
        self.expected.get()
    }

    /// Adds a link to a file or to a directory.
    #[must_use]
    pub fn linked(mut self, path: &str, target: &str) -> Self {
        self.links.insert(path.to_owned(), target.to_owned());
        self
    }

    /// Sets what a parser says about a file as a whole; the lines are counted here.
    #[must_use]
    pub fn outlined(mut self, path: &str, outline: Outline) -> Self {
        let lines = self
            .files
            .borrow()
            .get(path)
            .map_or(0, |file| String::from_utf8_lossy(&file.bytes).lines().count());
        let outline = Outline { lines: lines as u32, complete: true, ..outline };
        self.outlines.insert(path.to_owned(), outline);
        self
    }

    /// Makes the outline of a file incomplete.
    #[must_use]
    pub fn incomplete(mut self, path: &str) -> Self {
        self.outlines.entry(path.to_owned()).or_default().complete = false;
        self
    }

    /// Sets the files that each commit changed, the newest commit first. Without it the host grants no history.
    #[must_use]
    pub fn changed(mut self, commits: &[&[&str]]) -> Self {
        let mut changes = Changes { complete: true, ..Changes::default() };
        for (age, files) in commits.iter().enumerate() {
            let mut numbers = Vec::new();
            for file in *files {
                let known = changes.paths.iter().position(|path| path == file);
                numbers.push(known.unwrap_or(changes.paths.len()) as u32);
                if known.is_none() {
                    changes.paths.push((*file).to_owned());
                }
            }
            changes.items.push(crate::world::Change { age: age as u32, files: numbers });
        }
        changes.commits = commits.len() as u32;
        self.changes = Some(changes);
        self
    }

    /// Sets how many names are not UTF-8. They count for the last page of every listing.
    #[must_use]
    pub fn with_names_that_are_not_utf8(mut self, count: u64) -> Self {
        self.not_utf8 = count;
        self
    }

    /// Sets how many bytes one read returns at most.
    #[must_use]
    pub fn with_read_limit(mut self, bytes: usize) -> Self {
        self.read_limit = Some(bytes);
        self
    }

    /// Another process writes this file just before the next change.
    pub fn write_before_next_change(&self, path: &str, bytes: &[u8]) {
        *self.foreign_write.borrow_mut() = Some((path.to_owned(), bytes.to_vec()));
    }

    /// Adds or replaces a file.
    pub fn insert(&self, path: &str, version: u64, bytes: Vec<u8>) {
        self.files.borrow_mut().insert(path.to_owned(), File { bytes, version });
    }

    /// Returns the text of a file, or `None` when there is no such file.
    pub fn text(&self, path: &str) -> Option<String> {
        let files = self.files.borrow();
        files.get(path).map(|file| String::from_utf8_lossy(&file.bytes).into_owned())
    }

    /// Returns the version of a file, or `None` when there is no such file.
    pub fn version(&self, path: &str) -> Option<Version> {
        let files = self.files.borrow();
        let File { bytes, version } = files.get(path)?;
        Some(Version { number: *version, digest: format!("{bytes:?}") })
    }

    /// Takes the refusals that were reported since the last call.
    pub fn take_refusals(&self) -> Vec<(Operation, String, Reason)> {
        self.refusals.take()
    }

    fn expect(&self, path: &str, version: &Version) -> Result<(), EditError> {
        match self.version(path) {
            Some(now) if now == *version => Ok(()),
            now => Err(EditError::Conflict((path.to_owned(), now))),
        }
    }

    fn target<'a>(&'a self, path: &'a str) -> &'a str {
        self.links.get(path).map_or(path, String::as_str)
    }

    fn summary_row(
        &self,
        table: &mut SummaryTable,
        outline: Outline,
        wanted: &[String],
    ) -> SummaryRow {
        fn text(texts: &mut String, text: &str) -> Span {
            let start = texts.len() as u32;
            texts.push_str(text);
            Span { start, length: text.len() as u32 }
        }
        let span =
            |start: usize, end: usize| Span { start: start as u32, length: (end - start) as u32 };
        let count =
            |is: &dyn Fn(&&Symbol) -> bool| outline.symbols.iter().filter(is).count() as u32;
        let is_wanted = |symbol: &&Symbol| {
            let name = symbol.name.to_lowercase();
            wanted.iter().any(|wanted| name.contains(&wanted.to_lowercase()))
        };
        let (first_named, first_import) = (table.named.len(), table.imports.len());
        for symbol in outline.symbols.iter().filter(is_wanted) {
            let kind = KINDS.iter().position(|kind| *kind == symbol.kind).unwrap_or_default();
            table.named.push(SymbolRow {
                name: text(&mut table.texts, &symbol.name),
                container: text(&mut table.texts, symbol.container.as_deref().unwrap_or_default()),
                kind: kind as u32,
                first_line: symbol.first_line,
                last_line: symbol.last_line,
                exported: u32::from(symbol.exported),
            });
        }
        for import in &outline.imports {
            let first = table.names.len();
            for name in &import.names {
                let name = text(&mut table.texts, name);
                table.names.push(name);
            }
            let names = span(first, table.names.len());
            let target = text(&mut table.texts, &import.target);
            table.imports.push(ImportRow { line: import.line, target, names });
        }
        let of_package = outline.symbols.iter().filter(|symbol| symbol.container.is_none());
        let package_names = of_package.filter(|_| outline.language == "go");
        let package_names = package_names.map(|symbol| symbol.name.clone() + "\n");
        SummaryRow {
            refusal: 0,
            language: self
                .languages()
                .iter()
                .position(|word| *word == outline.language)
                .unwrap_or(usize::MAX) as u32,
            lines: outline.lines,
            symbols: count(&|_| true),
            exported: count(&|symbol| symbol.exported),
            tests: count(&|symbol| symbol.kind == "test"),
            complete: u32::from(outline.complete),
            named: span(first_named, table.named.len()),
            imports: span(first_import, table.imports.len()),
            package_names: text(&mut table.texts, &package_names.collect::<String>()),
        }
    }

    fn read_slice(&self, slice: &Slice) -> Result<Chunk, Refusal> {
        let path = self.target(&slice.path);
        let files = self.files.borrow();
        let File { bytes, .. } = files.get(path).ok_or(Refusal::NotFound)?;
        let length = slice.length.map_or(usize::MAX, |length| length as usize);
        let from = (slice.offset as usize).min(bytes.len());
        let to = from.saturating_add(length.min(self.read_limit.unwrap_or(usize::MAX)));
        Ok(Chunk {
            bytes: bytes[from..to.min(bytes.len())].to_vec(),
            size: bytes.len() as u64,
            version: if slice.with_version { self.version(path) } else { None },
        })
    }
}

impl Repository for Files {
    fn list_page(&self, want: &Selection, cursor: Option<&str>) -> Result<Counted, Refusal> {
        let under = want.under.first().map_or("", |under| self.target(under));
        let below = if under.is_empty() { String::new() } else { format!("{under}/") };
        let of_glob = want.globs.first().and_then(|glob| glob.split_once("**"));
        let of_glob = of_glob.map_or("", |(below, _)| below);
        let files = self.files.borrow();
        let files = files.iter().map(|(path, file)| Entry {
            path: path.clone(),
            kind: Kind::File,
            size: file.bytes.len() as u64,
        });
        let links = self.links.keys();
        let links = links.map(|path| Entry { path: path.clone(), kind: Kind::Link, size: 0 });
        let mut entries = files.chain(links).collect::<Vec<_>>();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries.retain(|entry| {
            entry.path.starts_with(&below)
                && entry.path.starts_with(of_glob)
                && cursor.is_none_or(|cursor| entry.path.as_str() > cursor)
                && (want.kinds.is_empty() || want.kinds.contains(&entry.kind))
        });
        let has_more = entries.len() > PAGE;
        entries.truncate(PAGE);
        let next = entries.last().filter(|_| has_more).map(|entry| entry.path.clone());
        let not_utf8 = if has_more { 0 } else { self.not_utf8 };
        Ok(Counted { entries: Entries { items: entries, next, truncated: false }, not_utf8 })
    }

    fn read_slices(&self, want: &[Slice]) -> Vec<Result<Chunk, Refusal>> {
        want.iter().map(|slice| self.read_slice(slice)).collect()
    }

    /// Understands plain text and `\b(one|other)\b`. A glob restricts to the directory that it begins with.
    fn search_page(
        &self,
        want: &Pattern,
        within: &Selection,
        _: Option<&str>,
    ) -> Result<Hits, Refusal> {
        if want.regex == "(" {
            return Err(Refusal::Invalid("unclosed group".to_owned()));
        }
        let words = want.regex.trim_start_matches("\\b(").trim_end_matches(")\\b").split('|');
        let case =
            |text: &str| if want.ignore_case { text.to_lowercase() } else { text.to_owned() };
        let words = words.map(|word| case(&word.replace('\\', ""))).collect::<Vec<_>>();
        let below = within.globs.first().and_then(|glob| glob.split_once("**"));
        let below = below.map_or("", |(below, _)| below);
        let mut items = Vec::new();
        for (path, file) in self.files.borrow().iter().filter(|(path, _)| path.starts_with(below)) {
            for (line, text) in String::from_utf8_lossy(&file.bytes).lines().enumerate() {
                let column = words.iter().find_map(|word| case(text).find(word.as_str()));
                items.extend(column.map(|column| Hit {
                    path: path.clone(),
                    line: line as u32 + 1,
                    column: column as u32 + 1,
                    text: text.to_owned(),
                }));
            }
        }
        Ok(Hits { items, next: None, truncated: false })
    }

    fn outline_page(&self, paths: &[String]) -> Vec<Result<Outline, Refusal>> {
        let outline = |path: &String| self.outlines.get(path).cloned().ok_or(Refusal::NotFound);
        paths.iter().map(outline).collect()
    }

    fn languages(&self) -> Vec<String> {
        crate::reports::source::PARSED.map(|(_, word)| word.to_owned()).to_vec()
    }

    fn summary_table(&self, paths: &[String], names: &[String]) -> SummaryTable {
        let mut table = SummaryTable::default();
        for outline in self.outline_page(paths) {
            let row = match outline {
                Ok(outline) => self.summary_row(&mut table, outline, names),
                Err(_) => SummaryRow { refusal: 1, ..SummaryRow::default() },
            };
            table.files.push(row);
        }
        table
    }

    fn expect_summaries(&self, paths: &[String], _: &[String]) {
        self.expected.set(self.expected.get() + paths.len());
    }

    fn recent_changes(&self, limit: u32) -> Result<Changes, Refusal> {
        let denied = || Refusal::Denied("repo.history: not granted to this component".to_owned());
        let mut changes = self.changes.clone().ok_or_else(denied)?;
        changes.items.retain(|change| change.age < limit);
        changes.commits = changes.commits.min(limit);
        Ok(changes)
    }
}

impl EditableRepository for Files {
    /// Protects `agent.yaml` as the host does.
    fn apply(&self, change: Change) -> Result<Option<Version>, EditError> {
        if let Some((path, bytes)) = self.foreign_write.borrow_mut().take() {
            let version = self.version(&path).map_or(1, |version| version.number + 1);
            self.insert(&path, version, bytes);
        }
        let path = match change {
            Change::Create((path, _)) | Change::Move((_, _, path))
                if self.version(&path).is_some() =>
            {
                return Err(EditError::Exists(path));
            }
            Change::Create((path, _)) if path == "agent.yaml" => {
                let why = "protected: the gate is the user's".to_owned();
                return Err(EditError::Protected((path, why)));
            }
            Change::Create((path, bytes)) => {
                self.insert(&path, 1, bytes);
                path
            }
            Change::Replace((path, version, bytes)) => {
                self.expect(&path, &version)?;
                self.insert(&path, version.number + 1, bytes);
                path
            }
            Change::Delete((path, version)) => {
                self.expect(&path, &version)?;
                self.files.borrow_mut().remove(&path);
                path
            }
            Change::Move((from, version, to)) => {
                self.expect(&from, &version)?;
                let moved = self.files.borrow_mut().remove(&from);
                self.insert(&to, 1, moved.map_or(vec![], |file| file.bytes));
                to
            }
        };
        Ok(self.version(&path))
    }

    fn report_refusal(&self, operation: Operation, path: &str, reason: Reason) {
        self.refusals.borrow_mut().push((operation, path.to_owned(), reason));
    }
}

/// A host in memory. It is built up turn by turn; afterwards a test asks what happened.
#[derive(Default)]
pub struct FakeHost {
    pub files: Files,
    script: Rc<RefCell<VecDeque<Turn>>>,
    sent: Rc<RefCell<Vec<String>>>,
    warnings: RefCell<Vec<String>>,
    wrap_up: bool,
    /// Milliseconds that pass between two looks at the clock.
    pace: u64,
    passed: Cell<u64>,
}

impl FakeHost {
    /// Returns a host with these files and a model that has no turn yet.
    pub fn new(files: Files) -> Self {
        Self { files, ..Self::default() }
    }

    /// The model's next turn is text.
    #[must_use]
    pub fn says(self, text: &str) -> Self {
        self.turn(text, vec![], Stop::Done)
    }

    /// The model's next turn calls tools: names and arguments.
    #[must_use]
    pub fn calls(self, calls: &[(&str, &str)]) -> Self {
        let call = |(at, (name, arguments)): (usize, &(&str, &str))| Call {
            id: format!("call-{at}"),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        };
        let calls = calls.iter().enumerate().map(call).collect();
        self.turn("", calls, Stop::Tools)
    }

    fn turn(self, text: &str, calls: Vec<Call>, stop: Stop) -> Self {
        let usage = Usage { input: 0, cached: 0, output: 0 };
        let turn = Turn { text: text.to_owned(), calls, stop, usage };
        self.script.borrow_mut().push_back(turn);
        self
    }

    /// The host advises to wrap up.
    #[must_use]
    pub fn advising_to_wrap_up(mut self) -> Self {
        self.wrap_up = true;
        self
    }

    /// So many milliseconds pass between two looks at the clock.
    #[must_use]
    pub fn slowed_by(mut self, milliseconds: u64) -> Self {
        self.pace = milliseconds;
        self
    }

    /// Returns what a component is given.
    pub fn world(&self) -> World<'_> {
        World { repository: &self.files, model: self, progress: self }
    }

    /// Returns what was sent to the model, in order, each with its role: `say: …`, `answer: …`.
    pub fn sent(&self) -> Vec<String> {
        self.sent.borrow().clone()
    }

    /// Returns the warnings in the log.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }

    /// Returns how many turns of the script were not asked for.
    pub fn turns_left(&self) -> usize {
        self.script.borrow().len()
    }
}

struct ScriptedConversation {
    script: Rc<RefCell<VecDeque<Turn>>>,
    sent: Rc<RefCell<Vec<String>>>,
}

impl Model for FakeHost {
    fn open(&self, system: &str, _: &[Tool]) -> Box<dyn Conversation> {
        self.sent.borrow_mut().push(format!("system: {system}"));
        Box::new(ScriptedConversation { script: self.script.clone(), sent: self.sent.clone() })
    }
}

impl Conversation for ScriptedConversation {
    fn say(&self, text: &str) {
        self.sent.borrow_mut().push(format!("say: {text}"));
    }

    fn answer(&self, answers: Vec<Answer>) -> Result<(), String> {
        for answer in answers {
            let kind = if answer.is_error { "error" } else { "answer" };
            self.sent.borrow_mut().push(format!("{kind}: {}", answer.content));
        }
        Ok(())
    }

    fn next(&self) -> Result<Turn, String> {
        let turn = self.script.borrow_mut().pop_front();
        turn.ok_or_else(|| "the script has no further turn".to_owned())
    }
}

impl Progress for FakeHost {
    fn step(&self, _: &str) -> Advice {
        if self.wrap_up { Advice::WrapUp } else { Advice::CarryOn }
    }

    fn time_left(&self) -> u64 {
        let passed = self.passed.get();
        self.passed.set(passed + self.pace);
        60_000_u64.saturating_sub(passed)
    }

    fn warn(&self, message: &str) {
        self.warnings.borrow_mut().push(message.to_owned());
    }
}
