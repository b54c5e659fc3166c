//! What stands in a new project. Everything is in the program: templates, interfaces and, for Rust, the kit that the
//! built-in components are made of.

use super::Lang;
use act_component::{ComponentName, Kind};

macro_rules! embedded {
    ($from:literal: $($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../../", $from, $path)))),*]
    };
}

type Embedded = &'static [(&'static str, &'static str)];

const WIT: Embedded = embedded!["wit/":
    "worlds.wit", "deps/model/model.wit", "deps/progress/progress.wit", "deps/repo/repo.wit",
    "deps/scout/scout.wit", "deps/tool/tool.wit", "deps/types/types.wit",
];

const KIT: Embedded = embedded!["components/kit/":
    "Cargo.toml", "src/grounding.rs", "src/host.rs", "src/inquiry.rs", "src/inventory.rs", "src/json.rs", "src/lib.rs",
    "src/paths.rs", "src/quoting.rs", "src/reading.rs", "src/report.rs", "src/testing.rs", "src/tool.rs", "src/world.rs",
];

/// The kit names it `../reports`.
const REPORTS: Embedded = embedded!["components/reports/":
    "Cargo.toml", "src/facts_a.rs", "src/facts_b.rs", "src/lib.rs", "src/report_a.rs", "src/report_b.rs", "src/source.rs",
    "src/version.rs",
];

const TEMPLATES: Embedded = embedded!["components/templates/":
    "README.md.in", "gitignore", "scout.json", "tool.json", "rust/Cargo.toml.in", "rust/scout.rs",
    "rust/tool.rs", "python/requirements.txt", "python/scout.py", "python/tool.py", "js/package.json.in",
    "js/build.mjs", "js/scout.js", "js/tool.js",
];

/// Crates in a project in Rust, which therefore cannot have their names.
pub(super) const VENDORED: [&str; 2] = ["act-kit", "act-reports"];

fn template(path: &str) -> &'static str {
    TEMPLATES.iter().find(|(name, _)| *name == path).map_or("", |(_, text)| text)
}

/// Paths below the project's directory, and texts.
pub(super) fn project(name: &ComponentName, kind: Kind, lang: Lang) -> Vec<(String, String)> {
    let word = kind.word();
    let mut files = vec![
        ("README.md", template("README.md.in")),
        (".gitignore", template("gitignore")),
        ("manifest.json", template(if kind == Kind::Scout { "scout.json" } else { "tool.json" })),
    ];
    match lang {
        Lang::Rust => files.push(("Cargo.toml", template("rust/Cargo.toml.in"))),
        Lang::Python => files.push(("requirements.txt", template("python/requirements.txt"))),
        Lang::Js => files.extend([
            ("package.json", template("js/package.json.in")),
            ("build.mjs", template("js/build.mjs")),
        ]),
    }
    let source = match lang {
        Lang::Rust => format!("rust/{word}.rs"),
        Lang::Python => format!("python/{word}.py"),
        Lang::Js => format!("js/{word}.js"),
    };
    files.push((lang.source(), template(&source)));
    let commands = commands(name, kind, lang).join("\n");
    let filled = |text: &str| {
        text.replace("{{name}}", name.as_str())
            .replace("{{kind}}", word)
            .replace("{{world}}", world(kind))
            .replace("{{lang}}", lang.word())
            .replace("{{source}}", lang.source())
            .replace("{{commands}}", &commands)
    };
    let mut project: Vec<_> =
        files.into_iter().map(|(path, text)| (path.to_owned(), filled(text))).collect();
    let verbatim = |below: &str, files: Embedded| -> Vec<_> {
        files.iter().map(|(path, text)| (format!("{below}/{path}"), (*text).to_owned())).collect()
    };
    project.extend(verbatim("wit", WIT));
    if lang == Lang::Rust {
        project.extend(verbatim("vendor/act-kit", KIT));
        project.extend(verbatim("vendor/reports", REPORTS));
    }
    project
}

/// Toolchains that import the whole of a world get one without what the template does not need.
fn world(kind: Kind) -> &'static str {
    match kind {
        Kind::Scout => "scout",
        Kind::Tool => "reading-tool",
    }
}

/// From sources to an approval, in the project's directory.
pub(super) fn commands(name: &ComponentName, kind: Kind, lang: Lang) -> Vec<String> {
    let world = world(kind);
    let mut commands = match lang {
        Lang::Rust => vec![
            "cargo build --release --target wasm32-wasip2".to_owned(),
            format!(
                "act components pack target/wasm32-wasip2/release/{}.wasm --manifest manifest.json --output {name}.wasm",
                name.as_str().replace('-', "_")
            ),
        ],
        Lang::Python => vec![
            "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt".to_owned(),
            format!(
                ".venv/bin/componentize-py -d wit -w {world} componentize app --stub-wasi -o {name}.wasm"
            ),
            format!("act components pack {name}.wasm --manifest manifest.json"),
        ],
        Lang::Js => vec![
            "npm install".to_owned(),
            "npm run build".to_owned(),
            format!("act components pack {name}.wasm --manifest manifest.json"),
        ],
    };
    commands.push(format!("act components test {name}.wasm"));
    commands.push(format!("act components approve {name}.wasm --name {name}"));
    commands
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use act_component::Manifest;

    fn below(root: &Path, path: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(root, &path, found);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    // COMPONENT-4
    #[test]
    fn nothing_of_the_interfaces_the_kit_and_the_templates_is_left_out() {
        for (from, embedded) in [
            ("wit", WIT),
            ("components/kit", KIT),
            ("components/reports", REPORTS),
            ("components/templates", TEMPLATES),
        ] {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(from);
            let mut there = BTreeSet::new();
            below(&root, &root, &mut there);
            let ours: BTreeSet<_> = embedded.iter().map(|(path, _)| (*path).to_owned()).collect();
            assert_eq!(ours, there, "{from}");
        }
    }

    // COMPONENT-4
    #[test]
    fn every_project_is_whole_and_has_a_manifest_of_its_name_and_kind() {
        let name: ComponentName = "my-notes".parse().unwrap();
        for kind in [Kind::Scout, Kind::Tool] {
            for lang in [Lang::Rust, Lang::Python, Lang::Js] {
                let project = project(&name, kind, lang);
                for (path, text) in &project {
                    let filled = path.contains('/') || !text.contains("{{");
                    assert!(!text.is_empty() && filled, "{lang:?} {path}: {text}");
                }
                let of = |path: &str| &project.iter().find(|(one, _)| one == path).unwrap().1;
                let manifest = Manifest::parse(of("manifest.json").as_bytes()).unwrap();
                assert_eq!((manifest.name.as_str(), manifest.kind), ("my-notes", kind));
                assert!(of(lang.source()).lines().count() <= 60);
                assert!(of("wit/worlds.wit").contains(kind.world().rsplit_once('@').unwrap().1));
            }
        }
    }
}
