//! JSON. Raw values are slices of the text, so that each has a position.

use super::{DEPTH, Entry, Lines, Malformed, Node, Value};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

pub(crate) fn json(text: &str) -> Result<Node, Malformed> {
    let text = text.trim_start_matches('\u{feff}');
    let root = serde_json::from_str::<&RawValue>(text).map_err(|error| Malformed {
        line: u32::try_from(error.line()).ok().filter(|line| *line > 0),
        message: error.to_string(),
    })?;
    Ok(node(root, &Positions { text, lines: Lines::of(text) }, 0))
}

/// Finds the line of a part of the text.
struct Positions<'a> {
    text: &'a str,
    lines: Lines,
}

impl Positions<'_> {
    fn line(&self, part: &str) -> u32 {
        self.lines.at((part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize))
    }
}

fn node(raw: &RawValue, positions: &Positions<'_>, depth: usize) -> Node {
    let text = raw.get();
    let value = match text.as_bytes().first() {
        Some(b'{' | b'[') if depth >= DEPTH => Value::Null,
        Some(b'{') => {
            let fields = serde_json::from_str::<BTreeMap<String, &RawValue>>(text);
            let mut entries = fields.unwrap_or_default().into_iter().collect::<Vec<_>>();
            entries.sort_by_key(|(_, raw)| raw.get().as_ptr());
            let entry = |(key, raw): (String, &RawValue)| {
                let node = node(raw, positions, depth + 1);
                Entry { key, line: node.line, node }
            };
            Value::Map(entries.into_iter().map(entry).collect())
        }
        Some(b'[') => {
            let items = serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default();
            Value::List(items.into_iter().map(|raw| node(raw, positions, depth + 1)).collect())
        }
        Some(b'"') => Value::Text(serde_json::from_str(text).unwrap_or_default()),
        _ if text == "null" => Value::Null,
        _ => Value::Text(text.to_owned()),
    };
    Node { line: positions.line(text), value }
}
