//! Finds entry points: files with a `main`, files that a manifest names, and names that tools look for.

use crate::resolve::binaries;
use crate::survey::Survey;
use act_kit::inventory::name;
use act_kit::paths::directory;
use act_kit::world::Repository;
use serde_json::Value;

/// Maximum number of manifests that are read.
const MANIFESTS: usize = 200;
const BYTES: u64 = 256 << 10;
/// Maximum number of Python files that are read to see whether they are scripts, nearest to the root first: people start those,
/// and reading each file of a large repository would take longer than everything else that is asked about it.
const SCRIPTS: usize = 150;

pub(super) fn of(repository: &dyn Repository, survey: &Survey) -> Vec<String> {
    let begins = |at: &u32| {
        let unit = survey.unit(*at);
        !unit.is_test && !unit.generated && (unit.has_main || is_named(survey.path(*at)))
    };
    let mut found =
        survey.all().filter(begins).map(|at| survey.path(at).to_owned()).collect::<Vec<_>>();
    found.extend(scripts(repository, survey));
    found.extend(declared(repository, survey));
    found.sort_unstable();
    found.dedup();
    // Files near the root come first, because people start those.
    found.sort_by_key(|path| path.matches('/').count());
    found
}

/// Returns the Python files that test whether they are run as a program (`if __name__ == "__main__"`).
fn scripts(repository: &dyn Repository, survey: &Survey) -> Vec<String> {
    let is_python = |at: &u32| survey.unit(*at).language == Some("Python");
    let python = survey.all().filter(|at| is_python(at) && survey.is_product(*at));
    let mut paths = python.map(|at| survey.path(at)).collect::<Vec<_>>();
    paths.sort_by_cached_key(|path| path.matches('/').count());
    paths.truncate(SCRIPTS);
    let mut found = vec![];
    for part in paths.chunks(64) {
        for (path, text) in part.iter().zip(repository.read(part, BYTES)) {
            if text.is_ok_and(|text| is_program(&text)) {
                found.push((*path).to_owned());
            }
        }
    }
    found
}

/// Returns whether a line of a Python file tests whether it is run as a program.
fn is_program(text: &[u8]) -> bool {
    let lines = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text).map(|end| end + 1));
    lines.map(|begin| &text[begin..]).any(|line| {
        line.strip_prefix(b"if __name__ == ").is_some_and(|rest| {
            rest.starts_with(b"\"__main__\"") || rest.starts_with(b"'__main__'")
        })
    })
}

fn is_named(path: &str) -> bool {
    let depth = || path.matches('/').count();
    match name(path) {
        "__main__.py" | "manage.py" | "wsgi.py" | "asgi.py" => true,
        "main.py" | "app.py" | "cli.py" => depth() <= 2,
        "index.js" | "index.mjs" | "index.ts" | "main.ts" | "main.js" | "server.js"
        | "server.ts" => depth() <= 1,
        "lib.rs" => directory(path) == "src" || directory(path).ends_with("/src"),
        _ => false,
    }
}

/// Returns the entry points that manifests declare and that exist.
fn declared(repository: &dyn Repository, survey: &Survey) -> Vec<String> {
    let manifests =
        survey.inventory.paths().filter(|path| matches!(name(path), "Cargo.toml" | "package.json"));
    let manifests = manifests.take(MANIFESTS).collect::<Vec<_>>();
    let mut found = vec![];
    for (path, text) in manifests.iter().zip(repository.read(&manifests, BYTES)) {
        let Some(text) = text.ok().and_then(|text| String::from_utf8(text).ok()) else { continue };
        let named = match name(path) {
            "Cargo.toml" => binaries(&text),
            _ => package(&text),
        };
        for place in named {
            let place = place.trim_start_matches("./");
            let root = directory(path);
            let place = if root.is_empty() { place.to_owned() } else { format!("{root}/{place}") };
            if survey.inventory.has(&place) {
                found.push(place);
            }
        }
    }
    found
}

fn package(text: &str) -> Vec<String> {
    let Ok(package) = serde_json::from_str::<Value>(text) else { return vec![] };
    let bins = match &package["bin"] {
        Value::String(path) => vec![path.clone()],
        Value::Object(bins) => bins.values().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => vec![],
    };
    let main = package["main"].as_str().map(str::to_owned);
    bins.into_iter().chain(main).collect()
}
