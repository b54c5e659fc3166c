//! The table of tools: finds the tool by its name, reads the model's arguments and runs it.

use crate::answer::Trouble;
use crate::editing::{self, Rewrite};
use crate::reading;
use act_kit::tool::{self, EditableRepository, NotRun, Operation, Outcome, arguments as parse};
use edit_protocol::{Edit, Reason, index, version};
use serde::Deserialize;
use serde_json::Value;

macro_rules! arguments {
    ($($name:ident { $($(#[$as:meta])? $field:ident: $type:ty),* })*) => {
        $(#[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $name { $($(#[$as])? $field: $type),* })*
    };
}

arguments! {
    List { path: Option<String> }
    Read { path: String, start: Option<usize>, end: Option<usize> }
    Search { pattern: String, glob: Option<String> }
    EditLine {
        path: String,
        #[serde(deserialize_with = "version")] expect_version: u64,
        #[serde(deserialize_with = "index")] index: usize,
        new: String
    }
    EditLines {
        path: String,
        #[serde(deserialize_with = "version")] expect_version: u64,
        #[serde(deserialize_with = "index")] start: usize,
        #[serde(deserialize_with = "index")] end: usize,
        new: String
    }
    EditMany {
        path: String,
        #[serde(deserialize_with = "version")] expect_version: u64,
        edits: Vec<Edit>
    }
    FullRewrite {
        path: String,
        #[serde(deserialize_with = "version")] expect_version: u64,
        content: String
    }
    Create { path: String, content: String }
    Delete { path: String, #[serde(deserialize_with = "version")] expect_version: u64 }
    Move {
        from: String,
        to: String,
        #[serde(deserialize_with = "version")] expect_version: u64
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
        "edit_line" | "edit_lines" | "edit_many" | "full_rewrite" => Some(Operation::Replace),
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
            let Read { path, start, end } = parse(arguments)?;
            reading::read(repository, &path, start, end)
        }
        "search" => {
            let Search { pattern, glob } = parse(arguments)?;
            reading::search(repository, &pattern, glob.as_deref())
        }
        "edit_line" => {
            let EditLine { path, expect_version, index, new } = parse(arguments)?;
            editing::rewrite(repository, &path, expect_version, Rewrite::Line { index, new })
        }
        "edit_lines" => {
            let EditLines { path, expect_version, start, end, new } = parse(arguments)?;
            let edit = Rewrite::Lines(Edit { start, end, new });
            editing::rewrite(repository, &path, expect_version, edit)
        }
        "edit_many" => {
            let EditMany { path, expect_version, edits } = parse(arguments)?;
            editing::rewrite(repository, &path, expect_version, Rewrite::Many(edits))
        }
        "full_rewrite" => {
            let FullRewrite { path, expect_version, content } = parse(arguments)?;
            editing::rewrite(repository, &path, expect_version, Rewrite::Full(content))
        }
        "create" => {
            let Create { path, content } = parse(arguments)?;
            editing::create(repository, &path, content)
        }
        "delete" => {
            let Delete { path, expect_version } = parse(arguments)?;
            editing::delete(repository, &path, expect_version)
        }
        "move" => {
            let Move { from, to, expect_version } = parse(arguments)?;
            editing::rename(repository, &from, &to, expect_version)
        }
        _ => return Err(NotRun::UnknownTool),
    })
}
