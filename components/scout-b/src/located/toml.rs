//! TOML, with the spans of its parser.

use super::{DEPTH, Entry, Lines, Malformed, Node, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(crate) fn toml(text: &str) -> Result<Node, Malformed> {
    let lines = Lines::of(text);
    match DeTable::parse(text) {
        Ok(table) => Ok(Node { line: 1, value: map(table.get_ref(), &lines, 0) }),
        Err(error) => Err(Malformed {
            line: error.span().map(|span| lines.at(span.start)),
            message: error.message().to_owned(),
        }),
    }
}

fn map(table: &DeTable<'_>, lines: &Lines, depth: usize) -> Value {
    let mut entries = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            line: lines.at(key.span().start),
            node: node(value, lines, depth + 1),
        })
        .collect::<Vec<_>>();
    entries.sort_by_key(|entry| entry.line);
    Value::Map(entries)
}

fn node(value: &Spanned<DeValue<'_>>, lines: &Lines, depth: usize) -> Node {
    let inner = match value.get_ref() {
        _ if depth > DEPTH => Value::Null,
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => Value::Text(number.to_string()),
        DeValue::Float(number) => Value::Text(number.to_string()),
        DeValue::Boolean(yes) => Value::Text(yes.to_string()),
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| node(item, lines, depth + 1)).collect())
        }
        DeValue::Table(table) => map(table, lines, depth),
    };
    Node { line: lines.at(value.span().start), value: inner }
}
