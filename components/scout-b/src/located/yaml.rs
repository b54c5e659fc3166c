//! YAML from parser events, without recursion. Aliases are ignored, because the anchored value is read where it is defined.

use super::{Entry, Malformed, Node, Value};
use granit_parser::{Event, Parser, ScalarStyle};

/// Parses the first document.
pub(crate) fn yaml(text: &str) -> Result<Node, Malformed> {
    let mut open = Vec::<Open>::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Malformed {
            line: u32::try_from(error.marker().line()).ok(),
            message: error.to_string(),
        })?;
        let line = u32::try_from(span.start.line()).unwrap_or(u32::MAX);
        let done = match event {
            Event::SequenceStart(..) => {
                open.push(Open { line, part: Part::List(vec![]) });
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open { line, part: Part::Map(vec![], None) });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open { line, part }) => Node { line, value: part.closed() },
                None => continue,
            },
            Event::Scalar(text, style, ..) => {
                let null = style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null");
                let value = if null { Value::Null } else { Value::Text(text.into_owned()) };
                Node { line, value }
            }
            Event::Alias(_) => Node { line, value: Value::Null },
            Event::DocumentEnd => return Ok(Node::default()),
            _ => continue,
        };
        match open.last_mut() {
            Some(outer) => outer.part.take(done),
            None => return Ok(done),
        }
    }
    Ok(Node::default())
}

struct Open {
    line: u32,
    part: Part,
}

enum Part {
    List(Vec<Node>),
    /// Entries, and the key of the next value.
    Map(Vec<Entry>, Option<(String, u32)>),
}

impl Part {
    fn take(&mut self, node: Node) {
        match self {
            Self::List(items) => items.push(node),
            Self::Map(entries, key) => match key.take() {
                Some((key, line)) => entries.push(Entry { key, line, node }),
                None => {
                    *key = Some((node.text().unwrap_or_default().to_owned(), node.line));
                }
            },
        }
    }

    fn closed(self) -> Value {
        match self {
            Self::List(items) => Value::List(items),
            Self::Map(entries, _) => Value::Map(entries),
        }
    }
}
