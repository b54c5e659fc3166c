//! Fields of a message that only the provider understands. Their pieces are joined, stored and sent back.
//!
//! Not `serde_json::Value`: it would parse numbers and nested objects, and write them back with other bytes.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::wire::json;

/// Raw fields by name. They are written in alphabetical order, so equal fields give equal bytes.
pub(super) type RawFields<'a> = BTreeMap<String, &'a RawValue>;

/// The fields of one message. Pieces of texts and of lists are joined; any other piece replaces the one before it. Nothing is
/// parsed further.
#[derive(Default)]
pub(super) struct Passthrough(BTreeMap<String, Piece>);

enum Piece {
    Text(String),
    List(Vec<Box<RawValue>>),
    Other(Box<RawValue>),
}

impl Passthrough {
    /// Takes over fields that are complete, empty ones included.
    pub(super) fn new(fields: RawFields<'_>) -> Self {
        Self(fields.into_iter().map(|(name, raw)| (name, Piece::read(raw))).collect())
    }

    /// Adds the next pieces. A null adds nothing.
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

    /// Returns the text of a field, or an empty text when the field is missing or not a text.
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
