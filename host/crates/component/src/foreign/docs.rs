//! The comments of an author on the functions of a component: the custom section `package-docs`, into which tools for WIT put
//! them. It is one byte with the version of the format, and JSON.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::failure::one_line;

/// Name of the section.
pub(crate) const SECTION: &str = "package-docs";
/// Maximum number of bytes of the section. The comments of all of WASI have 200 KiB.
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of bytes of a comment that the model gets. The model reads every one in each request.
const MAX_COMMENT: usize = 2_000;
/// The versions of the format. They differ in fields that are not read here.
const VERSIONS: [u8; 2] = [0, 1];

/// The comments of a package. A section that is not understood has none, because a component works without it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Docs {
    worlds: BTreeMap<String, World>,
    interfaces: BTreeMap<String, Interface>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct World {
    /// Functions that are imported or exported, in the first version of the format.
    funcs: BTreeMap<String, Function>,
    func_exports: BTreeMap<String, Function>,
    interfaces: BTreeMap<String, Interface>,
    interface_exports: BTreeMap<String, Interface>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Interface {
    funcs: BTreeMap<String, Function>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Function {
    Comment(String),
    Fields { docs: Option<String> },
}

impl Docs {
    /// Reads the content of the section.
    pub(crate) fn read(section: Option<&[u8]>) -> Self {
        let json = section.filter(|section| section.len() <= MAX_BYTES);
        let json = json.and_then(|section| section.split_first());
        let json = json.filter(|(version, _)| VERSIONS.contains(version));
        json.and_then(|(_, json)| serde_json::from_slice(json).ok()).unwrap_or_default()
    }

    /// Returns the comment of an exported function, on one line. `interface` is the exported interface that holds it.
    pub(super) fn of(&self, interface: Option<&str>, name: &str) -> Option<String> {
        let found = match interface {
            None => self
                .worlds
                .values()
                .find_map(|world| world.func_exports.get(name).or_else(|| world.funcs.get(name))),
            // `namespace:package/interface@version`, or the name of an interface that a world declares itself.
            Some(interface) => {
                let bare = interface.split('@').next().unwrap_or_default();
                let bare = bare.rsplit('/').next().unwrap_or_default();
                let inside = self.worlds.values().find_map(|world| {
                    world.interface_exports.get(bare).or_else(|| world.interfaces.get(bare))
                });
                self.interfaces.get(bare).or(inside).and_then(|one| one.funcs.get(name))
            }
        };
        let comment = match found? {
            Function::Comment(comment) => comment,
            Function::Fields { docs } => docs.as_ref()?,
        };
        Some(one_line(comment, MAX_COMMENT)).filter(|comment| !comment.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docs(version: u8, json: &str) -> Docs {
        Docs::read(Some(&[&[version], json.as_bytes()].concat()))
    }

    // FOREIGN-2
    #[test]
    fn the_comment_of_a_function_is_found_in_both_versions_of_the_format() {
        let old = r#"{"docs": "x", "worlds": {"w": {"funcs": {"greet": "Says hello."},
            "interfaces": {"inline": {"funcs": {"f": "Inside."}}}}},
            "interfaces": {"shapes": {"docs": "y", "funcs": {"draw": {"docs": "Draws\n  a shape."}}}}}"#;
        let new = r#"{"worlds": {"w": {"docs": "x", "func_exports": {"greet": {"docs": "Says hello.", "stability": {"type": "unknown"}}},
            "funcs": {"greet": "An import."}, "interface_exports": {"inline": {"funcs": {"f": {"docs": "Inside."}}}}}},
            "interfaces": {"shapes": {"funcs": {"draw": {"docs": "Draws\n  a shape."}}}}}"#;
        for docs in [docs(0, old), docs(1, new)] {
            let of = |interface, name| docs.of(interface, name);
            assert_eq!(of(None, "greet").as_deref(), Some("Says hello."));
            assert_eq!(of(Some("a:b/shapes@1.0.0"), "draw").as_deref(), Some("Draws a shape."));
            assert_eq!(of(Some("inline"), "f").as_deref(), Some("Inside."));
            assert_eq!(of(Some("a:b/shapes"), "greet"), None);
            assert_eq!(of(None, "draw"), None);
        }
    }

    // FOREIGN-2, security line 718
    #[test]
    fn comments_of_a_stranger_are_bounded_lines_and_a_broken_section_has_none() {
        let long = format!(
            r#"{{"worlds": {{"w": {{"funcs": {{"f": "{}\u001b[31m\n"}}}}}}}}"#,
            "ä".repeat(5_000)
        );
        let comment = docs(1, &long).of(None, "f").unwrap();
        assert!(comment.len() <= MAX_COMMENT && comment.ends_with('…'), "{}", comment.len());
        let hidden =
            docs(1, r#"{"worlds": {"w": {"funcs": {"f": "a\u001b[2Jb\u202ec", "g": " \n "}}}}"#);
        assert_eq!(hidden.of(None, "f").as_deref(), Some("a [2Jb c"));
        assert_eq!(hidden.of(None, "g"), None);
        let sound = r#"{"worlds": {"w": {"funcs": {"f": "x"}}}}"#;
        assert!(docs(2, sound).of(None, "f").is_none(), "a format that is not known");
        for json in ["", "{", "[]", "{\"worlds\": 1}", &"[".repeat(10_000)] {
            assert!(docs(1, json).of(None, "f").is_none(), "{json:.20}");
        }
        let large = format!("{sound}{}", " ".repeat(MAX_BYTES));
        assert!(docs(1, &large).of(None, "f").is_none());
        assert!(
            Docs::read(None).of(None, "f").is_none()
                && Docs::read(Some(&[])).of(None, "f").is_none()
        );
    }
}
