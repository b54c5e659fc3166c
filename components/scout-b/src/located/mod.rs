//! Manifests of every format as one shape: values that know the line they stand on.
//!
//! A file that cannot be parsed gives the reason, never a panic; nesting is bounded by each parser and here.

mod ini;
mod json;
mod toml;
mod yaml;

pub(crate) use ini::ini;
pub(crate) use json::json;
pub(crate) use toml::toml;
pub(crate) use yaml::yaml;

/// Deeper values are left out.
const DEPTH: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// From 1; of a value over several lines the first one with something of the value itself.
    pub(crate) line: u32,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Value {
    #[default]
    Null,
    /// Strings, numbers and truth values, as written.
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// Of the key.
    pub(crate) line: u32,
    pub(crate) node: Node,
}

/// Why a file could not be parsed.
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

    /// The items of a list.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The items of a list, or the one value that stands where a list may.
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

    /// The last entry of that name, as most tools take it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().rev().find(|entry| entry.key == key)
    }

    pub(crate) fn get(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.entry(key).map(|entry| &entry.node))
    }

    /// Text at a path, with its line.
    pub(crate) fn text_at(&self, path: &[&str]) -> Option<(&str, u32)> {
        let node = self.get(path)?;
        Some((node.text()?, node.line))
    }

    /// The line of the key at a path.
    pub(crate) fn line_of(&self, path: &[&str]) -> Option<u32> {
        let (last, above) = path.split_last()?;
        Some(self.get(above)?.entry(last)?.line)
    }
}

/// Byte offsets as lines.
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
