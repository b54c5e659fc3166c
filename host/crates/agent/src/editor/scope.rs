//! What `list` and `search` mean in a task that is scoped to a package of a monorepo: the package, unless the
//! model names a place. Pure; who may write where is the writer's to say.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The arguments as the tool gets them. What is no JSON object is left for the tool to refuse.
pub(super) fn scoped<'a>(package: Option<&str>, tool: &str, arguments: &'a str) -> Cow<'a, str> {
    let Some(package) = package else { return arguments.into() };
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    let Ok(mut arguments_read) = serde_json::from_str::<Map<String, Value>>(text) else {
        return arguments.into();
    };
    let (name, place) = match (tool, arguments_read.get("glob")) {
        ("list", _) if arguments_read.get("path").is_none_or(Value::is_null) => {
            ("path", package.to_owned())
        }
        ("search", None | Some(Value::Null)) => ("glob", format!("/{}", globset::escape(package))),
        ("search", Some(Value::String(glob))) if !names_a_place(glob) => {
            let name = glob.strip_prefix("**/").unwrap_or(glob);
            ("glob", format!("/{}/**/{name}", globset::escape(package)))
        }
        _ => return arguments.into(),
    };
    arguments_read.insert(name.to_owned(), place.into());
    Value::Object(arguments_read).to_string().into()
}

/// A glob with a `/` is a path from the root, except where it only says `**/`, at any depth.
fn names_a_place(glob: &str) -> bool {
    glob.strip_prefix("**/").unwrap_or(glob).trim_end_matches('/').contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EDITOR-15
    #[test]
    fn the_package_is_meant_where_no_place_is_named() {
        for (tool, arguments, expected) in [
            ("list", "", r#"{"path":"packages/core"}"#),
            ("list", r#"{"path":null}"#, r#"{"path":"packages/core"}"#),
            ("list", r#"{"path":"."}"#, r#"{"path":"."}"#),
            ("list", r#"{"path":"docs"}"#, r#"{"path":"docs"}"#),
            ("search", r#"{"pattern":"x"}"#, r#"{"pattern":"x","glob":"/packages/core"}"#),
            (
                "search",
                r#"{"pattern":"x","glob":"*.rs"}"#,
                r#"{"pattern":"x","glob":"/packages/core/**/*.rs"}"#,
            ),
            (
                "search",
                r#"{"pattern":"x","glob":"**/*.rs"}"#,
                r#"{"pattern":"x","glob":"/packages/core/**/*.rs"}"#,
            ),
            ("search", r#"{"glob":"docs/**"}"#, r#"{"glob":"docs/**"}"#),
            ("search", r#"{"glob":"/docs"}"#, r#"{"glob":"/docs"}"#),
            ("search", r#"{"glob":"**/docs/*.md"}"#, r#"{"glob":"**/docs/*.md"}"#),
            ("search", "no json", "no json"),
            ("read", "{}", "{}"),
        ] {
            assert_eq!(scoped(Some("packages/core"), tool, arguments), expected, "{arguments}");
            assert_eq!(scoped(None, tool, arguments), arguments);
        }
        assert_eq!(scoped(Some("a[b]"), "search", "{}"), r#"{"glob":"/a[[]b[]]"}"#);
    }
}
