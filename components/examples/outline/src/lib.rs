//! An example of a tool component: it lists what a file defines, so that the model does not have to read the whole file.

use act_kit::tool::{NotRun, Outcome, arguments};
use act_kit::world::{Symbol, World};
use serde::Deserialize;

act_kit::tool!(call);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    path: String,
}

/// Runs the tool `outline`.
///
/// # Errors
///
/// [`NotRun`] for another tool and for arguments that do not fit.
pub fn call(world: World<'_>, name: &str, text: &str) -> Result<Outcome, NotRun> {
    if name != "outline" {
        return Err(NotRun::UnknownTool);
    }
    let Wanted { path } = arguments(text)?;
    let outline = world.repository.outlines(&[&path]).pop().flatten();
    Ok(match outline {
        None => Outcome::refusal(format!("{path}: no such file, or no parser for it")),
        Some(outline) if outline.symbols.is_empty() => Outcome::text("it defines nothing"),
        Some(outline) => Outcome::text(outline.symbols.iter().map(line).collect::<String>()),
    })
}

fn line(symbol: &Symbol) -> String {
    let Symbol { name, kind, container, first_line, last_line, exported } = symbol;
    let within = container.as_ref().map(|container| format!("{container}.")).unwrap_or_default();
    let mark = if *exported { " *" } else { "" };
    format!("{first_line}-{last_line} {kind} {within}{name}{mark}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_kit::testing::{FakeHost, Files};
    use act_kit::world::Outline;

    fn called(path: &str) -> Outcome {
        let symbol = Symbol {
            name: "main".to_owned(),
            kind: "function".to_owned(),
            first_line: 1,
            last_line: 2,
            exported: true,
            ..Symbol::default()
        };
        let outline = Outline { symbols: vec![symbol], ..Outline::default() };
        let files = Files::of(&[("a.py", "def main():\n    pass\n")]).outlined("a.py", outline);
        let arguments = format!(r#"{{"path":"{path}"}}"#);
        call(FakeHost::new(files).world(), "outline", &arguments).unwrap()
    }

    #[test]
    fn definitions_are_listed_and_what_cannot_be_parsed_is_a_refusal() {
        assert_eq!(called("a.py"), Outcome::text("1-2 function main *\n"));
        assert!(called("b.py").is_error);
    }
}
