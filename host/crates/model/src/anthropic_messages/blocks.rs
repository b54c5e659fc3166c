//! One block of the model's turn: how its pieces are joined and how it goes back.
//!
//! A block that came in one piece goes back byte for byte. One that came in pieces is put together field by
//! field; what its fields mean is of no concern here but for text and calls.

use serde_json::value::RawValue;

use crate::ModelError;
use crate::body::json;
use crate::opaque::{Extra, Fields};

pub(super) struct Block {
    kind: Kind,
    raw: String,
    fields: Extra,
    /// Whether anything was added to what the start held.
    grown: bool,
    /// Pieces of a call's arguments.
    input: String,
    pub(super) ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Call,
    /// Reasoning, readable or not.
    Thinking,
    Other,
}

impl Block {
    pub(super) fn start(raw: &RawValue) -> Result<Self, ModelError> {
        let mut fields = parse(raw)?;
        let kind = match fields.get("type").map(|raw| raw.get()) {
            Some(r#""text""#) => Kind::Text,
            Some(r#""tool_use""#) => Kind::Call,
            Some(r#""thinking""# | r#""redacted_thinking""#) => Kind::Thinking,
            _ => Kind::Other,
        };
        let mut input = String::new();
        if kind == Kind::Call {
            // Whole already, if no pieces follow.
            input = fields.remove("input").map_or("{}", |raw| raw.get()).to_owned();
        }
        let fields = Extra::new(fields);
        Ok(Self { kind, raw: raw.get().to_owned(), fields, grown: false, input, ended: false })
    }

    /// Adds a piece and says how many bytes of content it brought.
    pub(super) fn delta(&mut self, raw: &RawValue) -> Result<usize, ModelError> {
        let mut piece = parse(raw)?;
        piece.remove("type");
        let written = piece.values().map(|raw| raw.get().len()).sum();
        if let Some(json) = piece.remove("partial_json") {
            let json: String = serde_json::from_str(json.get())
                .map_err(|_| ModelError::malformed("a piece of a call's arguments is no text"))?;
            if !json.is_empty() && !self.grown {
                self.input.clear();
                self.grown = true;
            }
            self.input.push_str(&json);
        }
        // Comes one by one and stands in a list.
        if let Some(citation) = piece.remove("citation") {
            let list = format!("[{}]", citation.get());
            if let Ok(list) = serde_json::from_str::<&RawValue>(&list) {
                self.fields.merge([("citations".to_owned(), list)].into());
                self.grown = true;
            }
        }
        if !piece.is_empty() {
            self.fields.merge(piece);
            self.grown = true;
        }
        Ok(written)
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.text(name)
    }

    /// The arguments as the model wrote them.
    pub(super) fn arguments(&self) -> &str {
        match self.input.trim() {
            "" => "{}",
            _ => &self.input,
        }
    }

    /// Whether the wire takes the block back: it refuses empty text and thinking without its signature.
    pub(super) fn counts(&self) -> bool {
        match self.kind {
            Kind::Text => !self.field("text").trim().is_empty(),
            Kind::Thinking => !self.field("signature").is_empty() || !self.field("data").is_empty(),
            Kind::Call | Kind::Other => true,
        }
    }

    /// The block as it stands in the conversation from now on.
    pub(super) fn echo(&self) -> String {
        if !self.grown {
            return self.raw.clone();
        }
        let mut fields = String::new();
        self.fields.write(&mut fields);
        if self.kind == Kind::Call {
            fields.push_str(&format!(r#","input":{}"#, self.input_object()));
        }
        format!("{{{}}}", fields.trim_start_matches(','))
    }

    /// Only objects are taken back. Whatever else the model wrote goes back as what it was: a mistake.
    fn input_object(&self) -> String {
        let input = self.arguments();
        match serde_json::from_str::<&RawValue>(input) {
            Ok(raw) if raw.get().starts_with('{') => raw.get().to_owned(),
            _ => format!(r#"{{"INVALID_JSON":{}}}"#, json(input)),
        }
    }
}

fn parse(raw: &RawValue) -> Result<Fields<'_>, ModelError> {
    serde_json::from_str(raw.get())
        .map_err(|_| ModelError::malformed("a content block of the stream is no object"))
}
