//! INI files as Python's tools write them: sections, `key = value`, indented lines that go on.

use super::{Entry, Node, Value};

/// Parses sections with their keys. A value over several lines is a list with one item for each line. Parsing never fails:
/// a line that does not fit is skipped.
pub(crate) fn ini(text: &str) -> Node {
    let mut sections = Vec::<Entry>::new();
    for (line, number) in text.lines().zip(1..) {
        let message = line.trim();
        if message.is_empty() || message.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = message.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let node = Node { line: number, value: Value::Map(vec![]) };
            sections.push(Entry { key: name.trim().to_owned(), line: number, node });
            continue;
        }
        let Some(Value::Map(keys)) = sections.last_mut().map(|section| &mut section.node.value)
        else {
            continue;
        };
        if line.starts_with([' ', '\t'])
            && let Some(last) = keys.last_mut()
        {
            more(&mut last.node, message, number);
        } else if let Some((key, value)) = message.split_once(['=', ':']) {
            let value = value.trim();
            let value = if value.is_empty() { Value::Null } else { Value::Text(value.to_owned()) };
            let node = Node { line: number, value };
            keys.push(Entry { key: key.trim().to_owned(), line: number, node });
        }
    }
    Node { line: 1, value: Value::Map(sections) }
}

fn more(node: &mut Node, message: &str, line: u32) {
    let next = Node { line, value: Value::Text(message.to_owned()) };
    match &mut node.value {
        Value::List(items) => items.push(next),
        Value::Null => *node = Node { line, value: Value::List(vec![next]) },
        _ => {
            let first = std::mem::take(node);
            *node = Node { line: first.line, value: Value::List(vec![first, next]) };
        }
    }
}
