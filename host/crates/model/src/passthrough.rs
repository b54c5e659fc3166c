//! RawFields of a message that only the provider understands: pieces are joined, stored and sent back.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::wire::json;

/// Raw fields by name. The order of names is lost and made the alphabet's, so it is always the same.
pub(super) type RawFields<'a> = BTreeMap<String, &'a RawValue>;

/// RawFields that only the provider understands: pieces of text and of lists are joined, of anything else the
/// last one counts; nothing is parsed further.
#[derive(Default)]
pub(super) struct Passthrough(BTreeMap<String, Piece>);

enum Piece {
    Text(String),
    List(Vec<Box<RawValue>>),
    Other(Box<RawValue>),
}

impl Passthrough {
    /// RawFields that are whole, empty ones included.
    pub(super) fn new(fields: RawFields<'_>) -> Self {
        Self(fields.into_iter().map(|(name, raw)| (name, Piece::read(raw))).collect())
    }

    pub(super) fn merge(&mut self, fields: RawFields<'_>) {
        for (name, raw) in fields {
            if raw.get() == "null" {
                continue;
            }
            match (self.0.get_mut(&name), Piece::read(raw)) {
                (Some(Piece::Text(known)), Piece::Text(more)) => known.push_str(&more),
                (Some(Piece::List(known)), Piece::List(more)) => known.extend(more),
                (_, piece) => drop(self.0.insert(name, piece)),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of a field; empty when it has none.
    pub(super) fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Piece::Text(text)) => text,
            _ => "",
        }
    }

    /// Appends `,"name":value` for each field.
    pub(super) fn write(&self, out: &mut String) {
        for (name, piece) in &self.0 {
            let value = match piece {
                Piece::Text(text) => json(text),
                Piece::List(items) => json(items),
                Piece::Other(raw) => raw.get().to_owned(),
            };
            out.push_str(&format!(",{}:{value}", json(name)));
        }
    }
}

impl Piece {
    fn read(raw: &RawValue) -> Self {
        let text = &*super::surrogates::replace_lone(raw.get());
        if let Ok(text) = serde_json::from_str(text) {
            Self::Text(text)
        } else if let Ok(list) = serde_json::from_str(text) {
            Self::List(list)
        } else {
            Self::Other(raw.to_owned())
        }
    }
}
