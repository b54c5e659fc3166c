//! One tool for the Editor's model: the notes that people left in the code.

use act_kit::tool::{NotRun, Outcome, arguments};
use act_kit::world::World;
use serde::Deserialize;

act_kit::tool!(call);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    glob: Option<String>,
}

fn call(world: World<'_>, name: &str, text: &str) -> Result<Outcome, NotRun> {
    match name {
        "notes" => notes(world, &arguments(text)?),
        _ => Err(NotRun::UnknownTool),
    }
}

fn notes(world: World<'_>, Notes { glob }: &Notes) -> Result<Outcome, NotRun> {
    let found = match world.repository.search(r"\b(TODO|FIXME|XXX)\b", glob.as_deref(), 50) {
        Ok(found) => found,
        // The model can correct such a call, for example one with an invalid glob.
        Err(why) => return Ok(Outcome::refusal(why)),
    };
    let line = |hit: act_kit::world::Hit| format!("{}:{}: {}\n", hit.path, hit.line, hit.text.trim());
    let mut lines: String = found.items.into_iter().map(line).collect();
    if found.truncated {
        lines.push_str("and more\n");
    }
    Ok(Outcome::text(if lines.is_empty() { "no notes".to_owned() } else { lines }))
}
