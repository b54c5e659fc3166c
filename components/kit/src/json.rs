//! Reading JSON that a model wrote: arguments of tools, and reports.

use serde::de::DeserializeOwned;
use serde_json::Deserializer;
use serde_json::de::StrRead;

/// Reads a tool's arguments. No text at all means no arguments; some models call a tool that needs none like that.
///
/// # Errors
///
/// Returns what does not fit and where: `edits[1].start: invalid type …`.
pub fn arguments<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut reader = Deserializer::from_str(text);
    let parsed = located(&mut reader)?;
    reader.end().map_err(|error| error.to_string())?;
    Ok(parsed)
}

/// Reads a report. Fields may be missing where `T` allows it, but not all of them.
///
/// # Errors
///
/// Returns what does not fit and where.
pub fn report<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    if text.split_whitespace().collect::<String>() == "{}" {
        return Err("it is empty".to_owned());
    }
    located(&mut Deserializer::from_str(text))
}

/// Reads one value. An error names the place in the JSON, because a model finds it by that.
fn located<'de, T: DeserializeOwned>(reader: &mut Deserializer<StrRead<'de>>) -> Result<T, String> {
    serde_path_to_error::deserialize(reader).map_err(|error| {
        let place = error.path().to_string();
        let why = error.into_inner();
        if place == "." { why.to_string() } else { format!("{place}: {why}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Wanted {
        lines: Vec<u32>,
    }

    #[test]
    fn an_error_names_its_place_and_no_text_means_no_arguments() {
        assert_eq!(arguments::<Wanted>(" "), Ok(Wanted::default()));
        let error = |text| arguments::<Wanted>(text).unwrap_err();
        assert!(error(r#"{"lines":[1,"x"]}"#).starts_with("lines[1]: invalid type"));
        assert!(error("{} {}").contains("trailing characters"));
        assert_eq!(report::<Wanted>("{ }"), Err("it is empty".to_owned()));
        assert_eq!(report(r#"{"lines":[]} and prose"#), Ok(Wanted::default()));
    }
}
