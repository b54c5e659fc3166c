//! The numbers and sets that a grant consists of: how two of them combine, and the largest number that may be written.
//!
//! [`bounds!`] declares a table of bounds once, with the default of each. From that declaration come the table itself,
//! its widest value, the meet of two values, and a ceiling: the same fields, each of them optional, which lowers a table
//! and never raises it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};

/// Largest component, in bytes. The store of approved components holds none that is larger.
pub const MAX_WASM: u64 = 64 << 20;

/// The number that limits nothing: more than any file on any disk, and still a number that every reader of JSON and
/// TOML takes.
pub(crate) const UNLIMITED: u64 = 1 << 53;

/// A value of a grant. Two values have a meet, which allows exactly what both of them allow.
pub(crate) trait Bound: Clone + PartialEq {
    /// The value that forbids nothing.
    fn unlimited() -> Self;

    /// The widest value that both allow.
    fn meet(&self, other: &Self) -> Self;

    /// The value as an upper limit; `None` if it limits nothing.
    fn as_limit(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// Upper limits for a value of type `B`. The default value sets no limit.
pub(crate) trait Limiting<B>: Default + PartialEq {
    /// Lowers `value` to the limits.
    fn lower(&self, value: &mut B);

    /// Returns all of `value` as limits.
    fn of(value: &B) -> Self;
}

/// The limit of a single value.
impl<B: Bound> Limiting<B> for Option<B> {
    fn lower(&self, value: &mut B) {
        if let Some(most) = self {
            *value = value.meet(most);
        }
    }

    fn of(value: &B) -> Self {
        value.as_limit()
    }
}

/// A capability that is granted within bounds, or not at all.
impl<B: Bound> Bound for Option<B> {
    fn unlimited() -> Self {
        Some(B::unlimited())
    }

    fn meet(&self, other: &Self) -> Self {
        let (a, b) = self.as_ref().zip(other.as_ref())?;
        Some(a.meet(b))
    }
}

impl Bound for bool {
    fn unlimited() -> Self {
        true
    }

    fn meet(&self, other: &Self) -> Self {
        *self && *other
    }
}

macro_rules! number {
    ($($number:ty = $unlimited:expr),*) => {$(
        impl Bound for $number {
            fn unlimited() -> Self {
                $unlimited
            }

            fn meet(&self, other: &Self) -> Self {
                *self.min(other)
            }
        }
    )*};
}

number!(u32 = u32::MAX, u64 = UNLIMITED, Duration = Duration::from_millis(UNLIMITED));

/// Declares a table of bounds with their defaults, and its ceiling. Attributes of a field belong to the table; those
/// after `ceiling` belong to the field of the ceiling.
macro_rules! bounds {
    (
        $(#[$meta:meta])*
        pub struct $name:ident, ceiling $ceiling:ident {
            $(
                $(#[$field_meta:meta])*
                $field:ident: $type:ty = $default:expr $(, ceiling #[$limit_meta:meta])? ;
            )*
        }
    ) => {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $(#[$meta])*
        pub struct $name { $( $(#[$field_meta])* pub $field: $type, )* }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        #[doc = concat!("Upper limits for [`", stringify!($name), "`]. A field that is `None` limits nothing.")]
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct $ceiling {
            $(
                #[serde(skip_serializing_if = "Option::is_none")]
                $(#[$limit_meta])?
                $field: Option<$type>,
            )*
        }

        impl $crate::bounds::Bound for $name {
            fn unlimited() -> Self {
                Self { $( $field: <$type as $crate::bounds::Bound>::unlimited(), )* }
            }

            fn meet(&self, other: &Self) -> Self {
                Self { $( $field: $crate::bounds::Bound::meet(&self.$field, &other.$field), )* }
            }
        }

        impl $crate::bounds::Limiting<$name> for $ceiling {
            fn lower(&self, bounds: &mut $name) {
                $( $crate::bounds::Limiting::lower(&self.$field, &mut bounds.$field); )*
            }

            fn of(bounds: &$name) -> Self {
                Self { $( $field: $crate::bounds::Bound::as_limit(&bounds.$field), )* }
            }
        }

        impl $crate::bounds::Limiting<Option<$name>> for $ceiling {
            fn lower(&self, granted: &mut Option<$name>) {
                if let Some(bounds) = granted {
                    $crate::bounds::Limiting::lower(self, bounds);
                }
            }

            fn of(granted: &Option<$name>) -> Self {
                granted.as_ref().map($crate::bounds::Limiting::of).unwrap_or_default()
            }
        }
    };
}

pub(crate) use bounds;

/// Reads a number of a grant and refuses one above `MOST`. Such a number is a slip or an attack, so it is refused where
/// it is written instead of being lowered in silence.
pub(crate) fn at_most<'de, const MOST: u64, D, N>(from: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<u64>,
{
    let number = u64::deserialize(from)?;
    let too_much =
        || D::Error::custom(format!("{number} is above the maximum; write at most {MOST}"));
    if number > MOST {
        return Err(too_much());
    }
    N::try_from(number).map_err(|_| too_much())
}

/// Some values, or any value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Set<T> {
    Any,
    Only(BTreeSet<T>),
}

/// A value of a [`Set`].
pub(crate) trait Element: Ord + Clone {
    /// The values that are in both sets.
    fn meet(a: &BTreeSet<Self>, b: &BTreeSet<Self>) -> BTreeSet<Self> {
        a.intersection(b).cloned().collect()
    }
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl<T: Ord> Set<T> {
    pub fn contains(&self, value: &T) -> bool {
        match self {
            Self::Any => true,
            Self::Only(values) => values.contains(value),
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

    /// The values that are listed. `Set::Any` lists none.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        match self {
            Self::Any => None,
            Self::Only(values) => Some(values.iter()),
        }
        .into_iter()
        .flatten()
    }
}

impl<T: Element> Bound for Set<T> {
    fn unlimited() -> Self {
        Self::Any
    }

    fn meet(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Any, set) | (set, Self::Any) => set.clone(),
            (Self::Only(a), Self::Only(b)) => Self::Only(T::meet(a, b)),
        }
    }

    fn as_limit(&self) -> Option<Self> {
        (!self.is_any()).then(|| self.clone())
    }
}

impl<T: Ord> FromIterator<T> for Set<T> {
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

/// Reads a list. A file cannot express `Set::Any`, because a person lists what is granted.
impl<'de, T: Deserialize<'de> + Ord> Deserialize<'de> for Set<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BTreeSet::deserialize(from).map(Self::Only)
    }
}

/// A duration as whole milliseconds, as grants spell it.
pub(crate) mod milliseconds {
    use super::{Deserializer, Duration, Serializer, UNLIMITED, at_most};

    /// Longest wall time of one call: an hour, in milliseconds.
    pub(crate) const MOST: u64 = 3_600_000;

    pub(crate) fn serialize<S: Serializer>(
        wall: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(wall.as_millis()).unwrap_or(UNLIMITED))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        at_most::<MOST, _, _>(from).map(Duration::from_millis)
    }
}

/// An optional duration of a ceiling, where a number that is too large limits nothing.
pub(crate) mod optional_milliseconds {
    use super::{Deserialize, Deserializer, Duration, Serializer, milliseconds};

    pub(crate) fn serialize<S: Serializer>(
        wall: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match wall {
            Some(wall) => milliseconds::serialize(wall, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use crate::Grant;

    fn read(text: &str) -> Result<Grant, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    // CAPABILITY-46
    #[test]
    fn every_number_of_a_grant_has_a_most() {
        let whole = serde_json::to_value(Grant::everything()).unwrap();
        let mut numbers = 0;
        for (part, values) in whole.as_object().unwrap() {
            for (name, _) in values.as_object().into_iter().flatten().filter(|(_, v)| v.is_number())
            {
                let mut grant = serde_json::to_value(Grant::builtin_scout()).unwrap();
                let http = serde_json::json!({
                    "origins": [], "methods": [], "request_bytes": 1, "response_bytes": 1
                });
                grant["http"] = http;
                assert!(read(&grant.to_string()).is_ok(), "{part} {name}");
                for number in [1_u64 << 53, u64::MAX] {
                    grant[part][name] = number.into();
                    let refused = read(&grant.to_string()).unwrap_err();
                    assert!(refused.contains("is above the maximum"), "{part} {name}: {refused}");
                }
                numbers += 1;
            }
        }
        assert_eq!(numbers, 18, "{whole:#}");
    }

    // CAPABILITY-46
    #[test]
    fn the_usual_bounds_and_the_most_itself_are_given() {
        for grant in [Grant::builtin_scout(), Grant::builtin_tool()] {
            assert_eq!(read(&serde_json::to_string(&grant).unwrap()).unwrap(), grant);
        }
        assert!(read(r#"{"limits":{"memory_bytes":4294967296}}"#).is_ok());
        assert!(
            read(r#"{"limits":{"memory_bytes":4294967297}}"#).unwrap_err().contains("4294967296")
        );
    }
}
