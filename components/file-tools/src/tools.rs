//! From a tool's name and the model's text to the tool.

use crate::answer::{Refused, Trouble};
use crate::editing::{self, Rewrite};
use crate::reading;
use crate::repository::Repository;
use act_kit::tool::{NotRun, Outcome, arguments as parse};
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

/// Runs the tool `name`.
pub fn run(repository: &dyn Repository, name: &str, arguments: &str) -> Result<Outcome, NotRun> {
    let (path, outcome) = match name {
        "list" => {
            let List { path } = parse(arguments)?;
            let path = path.unwrap_or_default();
            let outcome = reading::list(repository, &path);
            (path, outcome)
        }
        "read" => {
            let Read { path, start, end } = parse(arguments)?;
            let outcome = reading::read(repository, &path, start, end);
            (path, outcome)
        }
        "search" => {
            let Search { pattern, glob } = parse(arguments)?;
            (String::new(), reading::search(repository, &pattern, glob.as_deref()))
        }
        "edit_line" => {
            let EditLine { path, expect_version, index, new } = parse(arguments)?;
            let outcome =
                editing::rewrite(repository, &path, expect_version, Rewrite::Line { index, new });
            (path, outcome)
        }
        "edit_lines" => {
            let EditLines { path, expect_version, start, end, new } = parse(arguments)?;
            let edit = Rewrite::Lines(Edit { start, end, new });
            let outcome = editing::rewrite(repository, &path, expect_version, edit);
            (path, outcome)
        }
        "edit_many" => {
            let EditMany { path, expect_version, edits } = parse(arguments)?;
            let outcome = editing::rewrite(repository, &path, expect_version, Rewrite::Many(edits));
            (path, outcome)
        }
        "full_rewrite" => {
            let FullRewrite { path, expect_version, content } = parse(arguments)?;
            let outcome =
                editing::rewrite(repository, &path, expect_version, Rewrite::Full(content));
            (path, outcome)
        }
        "create" => {
            let Create { path, content } = parse(arguments)?;
            let outcome = editing::create(repository, &path, content);
            (path, outcome)
        }
        "delete" => {
            let Delete { path, expect_version } = parse(arguments)?;
            let outcome = editing::delete(repository, &path, expect_version);
            (path, outcome)
        }
        "move" => {
            let Move { from, to, expect_version } = parse(arguments)?;
            let outcome = editing::rename(repository, &from, &to, expect_version);
            (from, outcome)
        }
        _ => return Err(NotRun::UnknownTool),
    };
    match outcome {
        Ok(answer) => Ok(answer),
        Err(Trouble::Refused(refused)) => Ok(Refused::into_answer(refused, name, &path)),
        Err(Trouble::Failed(why)) => Err(NotRun::Failed(why)),
    }
}
