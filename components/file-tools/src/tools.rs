//! The table of tools: finds the tool by its name, reads the model's arguments and runs it.

use crate::answer::{Refused, Trouble};
use crate::editing::{self, LineEdit, Rewrite};
use crate::reading::{self, Wanted};
use act_kit::tool::{self, EditableRepository, NotRun, Operation, Outcome, arguments as parse};
use act_kit::world::Pattern;
use edit_protocol::Reason;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A number of a line or version. A whole number that no file has becomes the maximum, so that the refusal shows the file.
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        edit_protocol::version(text).map(Self)
    }
}

impl Number {
    fn line(&self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

macro_rules! arguments {
    ($($name:ident { $($field:ident: $type:ty),* })*) => {
        $(#[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $name { $($field: $type),* })*
    };
}

arguments! {
    List { path: Option<String> }
    Read { files: Option<Vec<FileLines>>, path: Option<String>, start: Option<Number>, end: Option<Number> }
    FileLines { path: String, start: Option<Number>, end: Option<Number> }
    Search {
        pattern: String,
        literal: Option<bool>,
        context: Option<Number>,
        glob: Option<String>,
        ignore_case: Option<bool>
    }
    Replace {
        path: String,
        old: String,
        new: String,
        all: Option<bool>,
        expect_version: Option<Number>
    }
    EditLines { path: String, expect_version: Number, edits: Vec<NumberedLines> }
    NumberedLines { start: Number, end: Number, new: String }
    Insert { path: String, expect_version: Number, after: Number, new: String }
    FullRewrite { path: String, expect_version: Number, content: String }
    Create { path: String, content: String }
    Delete { path: String, expect_version: Number }
    Move { from: String, to: String, expect_version: Number }
}

impl Read {
    /// The files that are asked for, by one of the two forms.
    fn wanted(self) -> Result<Vec<Wanted>, Refused> {
        let wanted = |FileLines { path, start, end }: FileLines| Wanted {
            path,
            start: start.as_ref().map(Number::line),
            end: end.as_ref().map(Number::line),
        };
        match self {
            Self { files: Some(files), path: None, start: None, end: None } => {
                Ok(files.into_iter().map(wanted).collect())
            }
            Self { files: None, path: Some(path), start, end } => {
                Ok(vec![wanted(FileLines { path, start, end })])
            }
            _ => {
                let message =
                    "name the files either by `files` or by one `path`, with its start and end";
                Err(Refused::new(Reason::BadArguments, message))
            }
        }
    }
}

impl Search {
    fn pattern(&self) -> Pattern {
        let is_literal = self.literal.unwrap_or_default();
        Pattern {
            regex: if is_literal { reading::escape(&self.pattern) } else { self.pattern.clone() },
            ignore_case: self.ignore_case.unwrap_or_default(),
            // A text of several lines is reported at its first one.
            multi_line: is_literal && self.pattern.contains('\n'),
        }
    }
}

/// Runs the tool `name` with the arguments that the model wrote, and reports an edit that was refused here to the host.
///
/// # Errors
///
/// [`NotRun`] for an unknown tool, for arguments that do not fit, and when the machine failed. A refusal that the model can
/// act on is an [`Outcome`].
pub fn run(
    repository: &impl EditableRepository,
    name: &str,
    arguments: &str,
) -> Result<Outcome, NotRun> {
    let called = call(repository, name, arguments);
    let reason = match &called {
        Ok(Err(Trouble::Refused(refused))) => (!refused.by_host).then_some(refused.reason),
        Err(NotRun::BadArguments(_)) => Some(Reason::BadArguments),
        _ => None,
    };
    if let (Some(operation), Some(reason)) = (operation(name), reason) {
        repository.report_refusal(operation, &path_of(arguments), wit_reason(reason));
    }
    called?.or_else(|trouble| match trouble {
        Trouble::Refused(refused) => Ok(refused.into_answer()),
        Trouble::Failed(why) => Err(NotRun::Failed(why)),
    })
}

/// Returns what a tool does to a file, or `None` for a tool that changes nothing.
fn operation(tool: &str) -> Option<Operation> {
    match tool {
        "replace" | "edit_lines" | "insert" | "full_rewrite" => Some(Operation::Replace),
        "create" => Some(Operation::Create),
        "delete" => Some(Operation::Delete),
        "move" => Some(Operation::Move),
        _ => None,
    }
}

/// Returns the path in arguments, which may not fit the tool's schema.
fn path_of(arguments: &str) -> String {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let text = |name: &str| arguments.get(name)?.as_str().map(str::to_owned);
    text("path").or_else(|| text("from")).unwrap_or_default()
}

fn wit_reason(reason: Reason) -> tool::Reason {
    macro_rules! convert {
        ($($case:ident $word:literal,)*) => {
            match reason {
                $(Reason::$case => tool::Reason::$case,)*
            }
        };
    }
    edit_protocol::for_each_reason!(convert)
}

/// Runs a tool. The outer error means that no tool ran.
fn call(
    repository: &impl EditableRepository,
    name: &str,
    arguments: &str,
) -> Result<Result<Outcome, Trouble>, NotRun> {
    Ok(match name {
        "list" => {
            let List { path } = parse(arguments)?;
            reading::list(repository, &path.unwrap_or_default())
        }
        "read" => {
            let wanted = parse::<Read>(arguments)?.wanted();
            wanted.map_err(Trouble::from).and_then(|wanted| reading::read(repository, &wanted))
        }
        "search" => {
            let search = parse::<Search>(arguments)?;
            let context = search.context.as_ref().map_or(0, Number::line).min(reading::CONTEXT);
            // Models fill a parameter that they do not use with an empty text.
            let glob = search.glob.as_deref().filter(|glob| !glob.is_empty());
            reading::search(repository, &search.pattern(), glob, context)
        }
        "replace" => {
            let Replace { path, old, new, all, expect_version } = parse(arguments)?;
            let edit = Rewrite::Text { old, new, all: all.unwrap_or_default() };
            editing::rewrite(repository, &path, expect_version.map(|version| version.0), &edit)
        }
        "edit_lines" => {
            let EditLines { path, expect_version, edits } = parse(arguments)?;
            let edit = |NumberedLines { start, end, new }: NumberedLines| LineEdit {
                start: start.line(),
                end: end.line(),
                new,
            };
            let edit = Rewrite::Lines(edits.into_iter().map(edit).collect());
            editing::rewrite(repository, &path, Some(expect_version.0), &edit)
        }
        "insert" => {
            let Insert { path, expect_version, after, new } = parse(arguments)?;
            let edit = Rewrite::Insert { after: after.line(), new };
            editing::rewrite(repository, &path, Some(expect_version.0), &edit)
        }
        "full_rewrite" => {
            let FullRewrite { path, expect_version, content } = parse(arguments)?;
            editing::rewrite(repository, &path, Some(expect_version.0), &Rewrite::Full(content))
        }
        "create" => {
            let Create { path, content } = parse(arguments)?;
            editing::create(repository, &path, content)
        }
        "delete" => {
            let Delete { path, expect_version } = parse(arguments)?;
            editing::delete(repository, &path, expect_version.0)
        }
        "move" => {
            let Move { from, to, expect_version } = parse(arguments)?;
            editing::rename(repository, &from, &to, expect_version.0)
        }
        _ => return Err(NotRun::UnknownTool),
    })
}
