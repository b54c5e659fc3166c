//! What a Scout needs: a repository to read, a model to ask, somebody to tell.

pub use crate::bindings::agentcommand::model::chat::{
    Stop, Tool, ToolCall as Call, ToolResult as Answer,
};

/// A file in view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub size: u64,
}

/// What a listing names: a file, or a link, wherever that leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    File(File),
    Link(String),
}

/// A line that matched, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub path: String,
    pub line: u32,
    pub text: String,
}

/// What was found, and whether that is all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<T> {
    pub items: Vec<T>,
    pub truncated: bool,
}

/// A definition; lines from 1, both ends included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Symbol {
    pub name: String,
    /// `function`, `method`, `type`, `constant`, `macro`, `module` or `test`.
    pub kind: String,
    pub container: Option<String>,
    pub first_line: u32,
    pub last_line: u32,
    pub exported: bool,
}

/// An import as it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Import {
    pub line: u32,
    pub target: String,
    pub names: Vec<String>,
}

/// What a parser says about a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    pub language: String,
    pub lines: u32,
    pub symbols: Vec<Symbol>,
    pub imports: Vec<Import>,
    pub complete: bool,
}

/// What an outline comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    pub language: String,
    pub lines: u32,
    /// Definitions; of these, those that other files can name, and tests.
    pub symbols: u32,
    pub exported: u32,
    pub tests: u32,
    /// Of the definitions at least those whose names hold what was looked for.
    pub named: Vec<Symbol>,
    pub imports: Vec<Import>,
    pub complete: bool,
}

impl From<Outline> for Summary {
    fn from(outline: Outline) -> Self {
        let count =
            |is: &dyn Fn(&&Symbol) -> bool| outline.symbols.iter().filter(is).count() as u32;
        Self {
            symbols: outline.symbols.len() as u32,
            exported: count(&|symbol| symbol.exported),
            tests: count(&|symbol| symbol.kind == "test"),
            language: outline.language,
            lines: outline.lines,
            named: outline.symbols,
            imports: outline.imports,
            complete: outline.complete,
        }
    }
}

pub trait Repository {
    /// Files and links in view, sorted by path, at most `most`.
    fn list(&self, most: usize) -> Result<Found<Entry>, String>;
    /// The beginnings of files, one answer for each, in order.
    fn read(&self, paths: &[&str], most: u64) -> Vec<Result<Vec<u8>, String>>;
    /// Lines that match, at most about `most`.
    fn search(&self, regex: &str, glob: Option<&str>, most: usize) -> Result<Found<Hit>, String>;
    /// What parsers say about these files, one answer for each, in order; none for one that no parser is for.
    fn outlines(&self, paths: &[&str]) -> Vec<Option<Outline>>;
    /// What these come to, with the definitions whose names hold one of `names`, in either case.
    fn summaries(&self, paths: &[&str], names: &[&str]) -> Vec<Option<Summary>>;
}

#[derive(Debug, Clone)]
pub struct Turn {
    pub text: String,
    pub calls: Vec<Call>,
    pub stop: Stop,
}

pub trait Model {
    fn open(&self, system: &str, tools: &[Tool]) -> Box<dyn Conversation>;
}

pub trait Conversation {
    fn say(&self, text: &str);
    fn answer(&self, answers: Vec<Answer>) -> Result<(), String>;
    fn next(&self) -> Result<Turn, String>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    CarryOn,
    WrapUp,
}

pub trait Progress {
    fn step(&self, message: &str) -> Advice;
    /// Something that was not as it should be.
    fn warn(&self, message: &str);
    /// Of the time that the query has, how much is left, in milliseconds.
    fn time_left(&self) -> u64;
}

/// All of it.
#[derive(Clone, Copy)]
pub struct World<'a> {
    pub repository: &'a dyn Repository,
    pub model: &'a dyn Model,
    pub progress: &'a dyn Progress,
}

/// What the Editor wants to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    pub text: String,
    pub context: Vec<(String, String)>,
    pub facts_only: bool,
}

impl Question {
    /// A text that the host added, if it did and there is something in it.
    pub fn context(&self, name: &str) -> Option<&str> {
        let found = self.context.iter().find(|(found, _)| found == name);
        found.map(|(_, text)| text.as_str()).filter(|text| !text.trim().is_empty())
    }
}

/// Why there is no report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Not a question for this Scout; says what is.
    OutOfScope(String),
    /// The model did not deliver something to report.
    Model(String),
    Other(String),
}
