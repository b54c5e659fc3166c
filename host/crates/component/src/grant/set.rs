//! Some values of a kind, or any of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Some values, or any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Set<T> {
    Any,
    Only(BTreeSet<T>),
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl<T: Ord + Clone> Set<T> {
    pub fn contains(&self, value: &T) -> bool {
        match self {
            Self::Any => true,
            Self::Only(values) => values.contains(value),
        }
    }

    pub(super) fn meet(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Any, set) | (set, Self::Any) => set.clone(),
            (Self::Only(a), Self::Only(b)) => Self::Only(a.intersection(b).cloned().collect()),
        }
    }
}

impl<T> Set<T> {
    pub fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(values) if values.is_empty())
    }

    /// Nothing to go over where it is any.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        match self {
            Self::Any => None,
            Self::Only(values) => Some(values.iter()),
        }
        .into_iter()
        .flatten()
    }
}

impl<T> FromIterator<T> for Set<T>
where
    T: Ord,
{
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self::Only(values.into_iter().collect())
    }
}

impl<T: Serialize> Serialize for Set<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.serialize_str("any"),
            Self::Only(values) => serializer.collect_seq(values),
        }
    }
}

/// A list: nobody writes down that anything goes.
impl<'de, T: Deserialize<'de> + Ord> Deserialize<'de> for Set<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BTreeSet::deserialize(from).map(Self::Only)
    }
}
