//! Parses manifests of every format into one type of values that know their lines.
//!
//! A file that cannot be parsed gives an error and never a panic. Nesting is bounded by each parser and here.

mod ini;
mod json;
mod toml;
mod yaml;

pub(crate) use ini::ini;
pub(crate) use json::json;
pub(crate) use toml::toml;
pub(crate) use yaml::yaml;

/// Maximum depth. Deeper values are left out.
const DEPTH: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// The line, counted from 1: the first one that contains a part of the value itself.
    pub(crate) line: u32,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Value {
    #[default]
    Null,
    /// Strings, numbers and booleans, as written.
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// The line of the key.
    pub(crate) line: u32,
    pub(crate) node: Node,
}

/// The reason why a file could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) line: Option<u32>,
    pub(crate) message: String,
}

impl Node {
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the items of a list.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the items of a list, or a single value in the place of a list.
    pub(crate) fn each(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            Value::Null => &[],
            _ => std::slice::from_ref(self),
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the last entry of that name; most tools use that one.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().rev().find(|entry| entry.key == key)
    }

    pub(crate) fn get(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.entry(key).map(|entry| &entry.node))
    }

    /// Returns the text at a path, with its line.
    pub(crate) fn text_at(&self, path: &[&str]) -> Option<(&str, u32)> {
        let node = self.get(path)?;
        Some((node.text()?, node.line))
    }

    /// Returns the line of the key at a path.
    pub(crate) fn line_of(&self, path: &[&str]) -> Option<u32> {
        let (last, above) = path.split_last()?;
        Some(self.get(above)?.entry(last)?.line)
    }
}

/// Converts byte offsets to lines.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    fn at(&self, offset: usize) -> u32 {
        u32::try_from(self.0.partition_point(|feed| *feed < offset) + 1).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
