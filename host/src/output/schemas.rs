//! The schema of what `act run --json` prints.

use act_core::Refusal;
use act_core::event::EventLine;
use act_core::event::schema;

/// One line of `act run --json`: an event of the task, or why there was none.
#[derive(serde::Serialize, schemars::JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its shape is looked at")]
enum RunLine<'a> {
    Event(EventLine<'a>),
    Refusal {
        /// Version of the documents, of which a refusal is one.
        schema: u32,
        #[serde(flatten)]
        refusal: Refusal<'a>,
    },
}

#[test]
fn the_schema_of_a_line_of_run_is_published() {
    // EVENT-8
    schema::holds::<RunLine<'_>>("run");
}

/// JSON-1: the page that a stranger reads names every schema, and none that does not exist.
#[test]
fn the_readme_names_every_schema_once_and_with_its_command() {
    let checkout = act_core::testing::checkout();
    let readme = std::fs::read_to_string(checkout.join("README.md")).unwrap();
    let (_, section) = readme.split_once("\n## JSON for programs\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    let mut named: Vec<_> = rows
        .map(|row| {
            let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let [what, command, schema] = cells[..] else { panic!("{row}") };
            let name = schema.strip_prefix('[').and_then(|rest| rest.split(']').next()).unwrap();
            assert_eq!(schema, format!("[{name}](specs/schemas/{name}.json)"));
            assert!(!what.is_empty() && !command.is_empty(), "{row}");
            name.to_owned()
        })
        .collect();
    let files = std::fs::read_dir(checkout.join("specs/schemas")).unwrap();
    let name = |file: std::fs::DirEntry| file.file_name().into_string().unwrap();
    let mut files: Vec<_> =
        files.map(|file| name(file.unwrap()).trim_end_matches(".json").to_owned()).collect();
    files.sort();
    named.sort();
    assert_eq!(named, files);
}

#[test]
fn the_schema_of_a_refusal_is_published() {
    // EVENT-8
    schema::document_holds::<Refusal<'_>>();
}
