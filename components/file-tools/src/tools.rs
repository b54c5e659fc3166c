//! The table of tools: finds the tool by its name, reads the model's arguments and runs it.

use crate::answer::Trouble;
use crate::editing::{self, Rewrite};
use crate::reading;
use act_kit::tool::{EditableRepository, NotRun, Outcome, arguments as parse};
use edit_protocol::{Edit, index, version};
use serde::Deserialize;

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

/// Runs the tool `name` with the arguments that the model wrote.
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
    let outcome = match name {
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
    };
    outcome.or_else(|trouble| match trouble {
        Trouble::Refused(refused) => Ok(refused.into_answer()),
        Trouble::Failed(why) => Err(NotRun::Failed(why)),
    })
}
