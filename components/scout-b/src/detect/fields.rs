//! Single fields of manifests that are no JSON, found by looking at lines. No parser: a manifest is written by
//! anybody, and what is not found is left open.

/// The value of `key = "value"` in a section of a TOML or INI file; the section is the text between the brackets,
/// empty for what stands before the first.
pub(super) fn toml_value<'a>(text: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let mut current = "";
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            current = header.split(']').next().unwrap_or_default().trim_start_matches('[').trim();
        } else if current == section
            && let Some((found, value)) = line.split_once('=')
            && found.trim() == key
        {
            return Some(unquoted(value));
        }
    }
    None
}

/// Whether there is a section of that name, or one below it.
pub(super) fn has_section(text: &str, section: &str) -> bool {
    text.lines().map(str::trim).filter_map(|line| line.strip_prefix('[')).any(|header| {
        let header = header.trim_start_matches('[').split(']').next().unwrap_or_default().trim();
        header.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// A scalar without its quotes and without a comment behind it.
pub(super) fn unquoted(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            return rest.split(quote).next().unwrap_or(rest);
        }
    }
    value.split(" #").next().unwrap_or(value).trim()
}
