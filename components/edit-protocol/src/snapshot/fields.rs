//! The JSON of a snapshot: an object whose fields keep order and text, and a map of lines.

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Reads every field of an object with the text of its value. A duplicate name is refused, because readers do not agree on
/// which value counts.
#[derive(Debug, Clone)]
pub(super) struct Fields(Vec<(String, Box<RawValue>)>);

/// Reads `{"0": …, "1": …}`, in any order, without a gap.
pub(super) struct Lines(pub(super) Vec<String>);

impl Fields {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.get())
    }

    /// Writes the object with the JSON of some values replaced.
    pub(super) fn print(&self, replaced: &[(&str, &str)]) -> String {
        let mut text = String::from("{");
        for (at, (name, value)) in self.0.iter().enumerate() {
            let new = replaced.iter().find(|(replaced, _)| replaced == name);
            let value = new.map_or(value.get(), |(_, value)| *value);
            let name = serde_json::Value::from(name.as_str());
            text.push_str(if at == 0 { "\n  " } else { ",\n  " });
            text.push_str(&format!("{name}: {value}"));
        }
        text.push_str("\n}\n");
        text
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields: Vec<(String, Box<RawValue>)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format!("field {name:?} occurs twice")));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Lines;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of index and text")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lines, A::Error> {
                let mut found = Vec::new();
                while let Some((name, text)) = map.next_entry::<String, String>()? {
                    let index = name.parse::<usize>().ok();
                    // "01" and "+1" would be second names of an existing line.
                    let Some(index) = index.filter(|index| index.to_string() == name) else {
                        return Err(A::Error::custom(format!("{name:?} is not an index")));
                    };
                    found.push((index, text));
                }
                found.sort_by_key(|(index, _)| *index);
                let gap = found.iter().enumerate().find(|(at, (index, _))| at != index);
                match gap {
                    Some((at, (index, _))) if index < &at => {
                        Err(A::Error::custom(format!("index {index} occurs twice")))
                    }
                    Some((at, _)) => Err(A::Error::custom(format!("index {at} is missing"))),
                    None => Ok(Lines(found.into_iter().map(|(_, text)| text).collect())),
                }
            }
        }
        deserializer.deserialize_map(Map)
    }
}

/// Writes each line on a row of its own, so that a diff of one line has one row.
pub(super) fn print_lines(lines: &[String]) -> String {
    if lines.is_empty() {
        return "{}".to_owned();
    }
    let row = |(index, line): (usize, &String)| {
        format!("    \"{index}\": {}", serde_json::Value::from(line.as_str()))
    };
    format!("{{\n{}\n  }}", lines.iter().enumerate().map(row).collect::<Vec<_>>().join(",\n"))
}
