//! An edit that the tool refused by itself: read off its name, its arguments and its answer. Pure.
//!
//! A component words its answer as it likes; only words of the contract are counted under their own name.

use serde_json::Value;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct RefusedEdit {
    pub path: String,
    /// As the writer would have named it.
    pub op: &'static str,
    pub reason: &'static str,
}

/// Bytes of a path that are told.
const PATH: usize = 200;

const REASONS: [&str; 17] = [
    "version_mismatch",
    "index_out_of_bounds",
    "new_has_newline",
    "content_empty",
    "bad_arguments",
    "not_found",
    "exists",
    "protected",
    "guarded",
    "boundary",
    "outside_repo",
    "excluded",
    "binary",
    "too_large",
    "not_a_file",
    "budget",
    "tool_failed",
];

/// None when the tool changes nothing.
pub(super) fn refused_edit(tool: &str, arguments: &str, answer: &str) -> Option<RefusedEdit> {
    let op = match tool {
        "edit_line" | "edit_lines" | "edit_many" | "full_rewrite" => "replace",
        "create" => "create",
        "delete" => "delete",
        "move" => "move",
        _ => return None,
    };
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
    let path = text(&arguments, "path").or_else(|| text(&arguments, "from")).unwrap_or_default();
    let word = text(&answer, "reason").unwrap_or_default();
    let reason = REASONS.into_iter().find(|known| *known == word).unwrap_or("other");
    let cut = path.floor_char_boundary(PATH.min(path.len()));
    Some(RefusedEdit { path: path[..cut].to_owned(), op, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(path: &str, op: &'static str, reason: &'static str) -> Option<RefusedEdit> {
        Some(RefusedEdit { path: path.to_owned(), op, reason })
    }

    /// EDITOR-14
    #[test]
    fn what_a_tool_refused_is_counted_under_a_word_of_the_contract() {
        let stale = r#"{"ok":false,"reason":"version_mismatch","current_version":2}"#;
        assert_eq!(
            refused_edit("edit_line", r#"{"path":"a"}"#, stale),
            edit("a", "replace", "version_mismatch")
        );
        assert_eq!(
            refused_edit("move", r#"{"from":"a","to":"b"}"#, stale),
            edit("a", "move", "version_mismatch")
        );
        assert_eq!(refused_edit("read", r#"{"path":"a"}"#, stale), None);
        assert_eq!(refused_edit("create", "no json", "neither"), edit("", "create", "other"));
        let invented = r#"{"reason":"\u001b[2Jowned"}"#;
        assert_eq!(refused_edit("delete", "{}", invented), edit("", "delete", "other"));
        let long = format!(r#"{{"path":"{}"}}"#, "é".repeat(300));
        assert_eq!(refused_edit("create", &long, stale).unwrap().path.len(), 200);
    }
}
