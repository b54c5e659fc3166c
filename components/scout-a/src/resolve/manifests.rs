//! Reads the names that manifests give to directories: crates, Go modules, npm packages, path aliases.

use act_kit::inventory::{Inventory, name};
use act_kit::paths::{directory, join, resolve};
use act_kit::world::Repository;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use toml::de::{DeTable, DeValue};

/// Maximum number of manifests that are read, and of bytes of one.
const MOST: usize = 2_000;
const BYTES: u64 = 256 << 10;

pub(super) struct Package {
    pub(super) root: String,
    /// The entry points as written in the manifest.
    pub(super) entries: Vec<String>,
}

#[derive(Default)]
pub(super) struct Manifests {
    /// Maps a crate's name, as code writes it, to the directory of its root module.
    pub(super) crates: HashMap<String, String>,
    pub(super) go_modules: BTreeMap<String, String>,
    pub(super) packages: HashMap<String, Package>,
    /// Maps the directory of a `tsconfig.json` to its path aliases: patterns and their targets.
    pub(super) short_names: HashMap<String, Vec<(String, Vec<String>)>>,
}

impl Manifests {
    pub(super) fn read(repository: &dyn Repository, inventory: &Inventory) -> Self {
        const NAMES: [&str; 5] =
            ["Cargo.toml", "go.mod", "package.json", "tsconfig.json", "jsconfig.json"];
        let paths = inventory.paths().filter(|path| NAMES.contains(&name(path)));
        let paths = paths.take(MOST).collect::<Vec<_>>();
        let mut manifests = Self::default();
        for part in paths.chunks(32) {
            for (path, text) in part.iter().zip(repository.read(part, BYTES)) {
                let Some(text) = text.ok().and_then(|text| String::from_utf8(text).ok()) else {
                    continue;
                };
                manifests.add(path, &text);
            }
        }
        manifests
    }

    fn add(&mut self, path: &str, text: &str) {
        let root = directory(path);
        match name(path) {
            "Cargo.toml" => self.cargo(root, text),
            "go.mod" => {
                let module = text.lines().find_map(|line| line.trim().strip_prefix("module "));
                if let Some(module) = module {
                    let module =
                        module.split("//").next().unwrap_or_default().trim().trim_matches('"');
                    self.go_modules.insert(module.to_owned(), root.to_owned());
                }
            }
            "package.json" => self.package(root, text),
            _ => self.config(root, text),
        }
    }

    fn cargo(&mut self, root: &str, text: &str) {
        let Ok(table) = DeTable::parse(text) else { return };
        let table = table.get_ref();
        let of = |section: &str, key: &str| {
            let section = table.get(section)?.get_ref().as_table()?;
            Some(section.get(key)?.get_ref().as_str()?.to_owned())
        };
        let Some(name) = of("lib", "name").or_else(|| of("package", "name")) else { return };
        let library = of("lib", "path").unwrap_or_else(|| "src/lib.rs".to_owned());
        let Some(library) = resolve(root, &library) else { return };
        self.crates.insert(name.replace('-', "_"), directory(&library).to_owned());
    }

    fn package(&mut self, root: &str, text: &str) {
        let Ok(package) = serde_json::from_str::<Value>(text) else { return };
        let Some(name) = package["name"].as_str() else { return };
        let entries = ["source", "module", "main", "types"]
            .map(|key| package[key].as_str().map(str::to_owned));
        let entries = entries.into_iter().flatten().collect();
        self.packages.insert(name.to_owned(), Package { root: root.to_owned(), entries });
    }

    fn config(&mut self, root: &str, text: &str) {
        let Ok(config) = serde_json::from_str::<Value>(&without_comments(text)) else { return };
        let options = &config["compilerOptions"];
        let base = join(root, options["baseUrl"].as_str().unwrap_or_default());
        let Some(paths) = options["paths"].as_object() else { return };
        let places = |places: &Value| {
            let places = places.as_array().into_iter().flatten().filter_map(Value::as_str);
            places.take(8).map(|place| join(&base, place)).collect::<Vec<_>>()
        };
        let mut names = paths
            .iter()
            .take(64)
            .map(|(pattern, to)| (pattern.clone(), places(to)))
            .collect::<Vec<_>>();
        // The pattern with the longest prefix wins.
        names.sort_by_key(|(pattern, _)| usize::MAX - pattern.find('*').unwrap_or(usize::MAX / 2));
        self.short_names.insert(root.to_owned(), names);
    }
}

/// Removes comments and trailing commas, which these configurations may contain.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '"' => string(rest),
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = rest[2..].find("*/").map_or("", |end| &rest[end + 4..]);
                continue;
            }
            '}' | ']' => {
                out.truncate(out.trim_end().trim_end_matches(',').len());
                c.len_utf8()
            }
            c => c.len_utf8(),
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

/// Returns the length of the string literal that the text begins with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Returns the paths of the binaries that a `Cargo.toml` declares.
pub(crate) fn binaries(text: &str) -> Vec<String> {
    let Ok(table) = DeTable::parse(text) else { return vec![] };
    let path =
        |value: &DeValue<'_>| Some(value.as_table()?.get("path")?.get_ref().as_str()?.to_owned());
    let sections = table.get_ref().get("bin").and_then(|bins| bins.get_ref().as_array());
    sections
        .into_iter()
        .flat_map(|bins| bins.iter())
        .filter_map(|bin| path(bin.get_ref()))
        .collect()
}
