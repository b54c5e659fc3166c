//! `list`, `read`, `search`: answers of bounded size that say how to go on.

use crate::answer::{Refused, Trouble};
use crate::path;
use crate::repository::{Chunk, Denial, Entry, Kind, Repository};
use act_kit::tool::Outcome;
use edit_protocol::Document;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// More names than this are folded into directories.
const LISTED: usize = 200;
/// Names that are looked at before a listing says that it is cut.
const SEEN: usize = 50_000;
/// Lines and bytes of text in one answer of `read`.
const READ_LINES: usize = 500;
const READ_BYTES: usize = 24 * 1024;
/// Of one line; one that is longer can only be replaced whole.
const LINE_BYTES: usize = 2_000;
/// Hits in one answer of `search`, and bytes of their text.
const HITS: usize = 100;
const HIT_BYTES: usize = 200;
/// Larger files are not for line edits.
pub(crate) const MAX_FILE: u64 = 4 << 20;

fn answer(value: &Value) -> Outcome {
    Outcome { text: value.to_string(), data: None, is_error: false }
}

/// Every file below `path`; when those are too many, its own names, directories with how much is in them.
pub(crate) fn list(repository: &dyn Repository, path: &str) -> Result<Outcome, Trouble> {
    let path = path::clean(path)?;
    let mut entries = Vec::new();
    let (mut cursor, mut truncated) = (None, false);
    loop {
        let page = repository.list(&path, cursor)?;
        entries.extend(page.items);
        truncated |= page.truncated;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        if entries.len() >= SEEN {
            truncated = true;
            break;
        }
    }
    if entries.is_empty() && !path.is_empty() {
        return Err(Refused::new("not_found").message("nothing there, or nothing in view").into());
    }
    let leaves = entries.iter().filter(|entry| entry.kind != Kind::Directory).collect::<Vec<_>>();
    let names = match leaves.len() > LISTED {
        true => folded(base(&path, &entries), &leaves),
        false => leaves.into_iter().map(name).collect::<Vec<_>>(),
    };
    truncated |= names.len() > LISTED * 2;
    let mut value =
        json!({"ok": true, "path": path, "entries": &names[..names.len().min(LISTED * 2)]});
    if truncated {
        value["truncated"] = Value::from(true);
    }
    Ok(answer(&value))
}

fn name(entry: &Entry) -> String {
    match entry.kind {
        Kind::Link => format!("{}@", entry.path),
        _ => entry.path.clone(),
    }
}

/// The real name of the directory that was listed as `path`. Behind a link the entries lie elsewhere; the first
/// of them, in path order, stands in the directory itself.
fn base<'a>(path: &'a str, entries: &'a [Entry]) -> &'a str {
    let in_path =
        |entry: &Entry| entry.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    match entries.first() {
        Some(first) if !path.is_empty() && !in_path(first) => {
            first.path.rsplit_once('/').map_or("", |(directory, _)| directory)
        }
        _ => path,
    }
}

/// One level: files by name, directories as `dir/ (12 files)`.
fn folded(path: &str, leaves: &[&Entry]) -> Vec<String> {
    let below = if path.is_empty() { 0 } else { path.len() + 1 };
    let mut names = BTreeMap::<String, usize>::new();
    for entry in leaves {
        match entry.path.get(below..).and_then(|rest| rest.split_once('/')) {
            Some((directory, _)) => {
                *names.entry(format!("{}{directory}/", &entry.path[..below])).or_default() += 1;
            }
            None => *names.entry(name(entry)).or_default() = 0,
        }
    }
    let named = |(name, count): (String, usize)| match count {
        0 => name,
        1 => format!("{name} (1 file)"),
        more => format!("{name} ({more} files)"),
    };
    names.into_iter().map(named).collect()
}

/// The lines `start..end` of a file as index → text, with its version.
pub(crate) fn read(
    repository: &dyn Repository,
    path: &str,
    start: Option<usize>,
    end: Option<usize>,
) -> Result<Outcome, Trouble> {
    let path = path::clean_file(path)?;
    let file = whole(repository, &path)?;
    let document = Document::parse(&file.bytes)?;
    let count = document.lines.len();
    let (start, end) = (start.unwrap_or(0), end.unwrap_or(usize::MAX));
    if start > end {
        let message = format!("start {start} is behind end {end}");
        return Err(Refused::new("bad_arguments").message(&message).into());
    }
    if start > count {
        return Err(Refused::new("index_out_of_bounds")
            .with("max_index", document.max_index())
            .into());
    }

    let (mut lines, mut bytes, mut next) = (Map::new(), 0, None);
    let wanted = document.lines.iter().enumerate().take(end).skip(start);
    for (index, line) in wanted {
        let text = line.shown();
        if lines.len() >= READ_LINES || (bytes > 0 && bytes + text.len() > READ_BYTES) {
            next = Some(index);
            break;
        }
        let cut = text.floor_char_boundary(LINE_BYTES.min(text.len()));
        let shown = match text.len() - cut {
            0 => text.into_owned(),
            more => format!("{}… [{more} bytes more]", &text[..cut]),
        };
        bytes += shown.len();
        lines.insert(index.to_string(), Value::from(shown));
    }
    let mut value = json!({
        "ok": true, "path": path, "version": file.version.number, "line_count": count, "lines": lines
    });
    if let Some(next) = next {
        value["next_start"] = Value::from(next);
    }
    Ok(answer(&value))
}

/// Matching lines by path, as index → text.
pub(crate) fn search(
    repository: &dyn Repository,
    pattern: &str,
    glob: Option<&str>,
) -> Result<Outcome, Trouble> {
    let (mut hits, mut count, mut truncated) = (Map::new(), 0, false);
    let mut cursor = None;
    'pages: loop {
        let page = repository.search(pattern, glob, cursor)?;
        truncated |= page.truncated;
        for hit in page.items {
            if count >= HITS {
                truncated = true;
                break 'pages;
            }
            count += 1;
            let cut = hit.text.floor_char_boundary(HIT_BYTES.min(hit.text.len()));
            let text = match cut < hit.text.len() {
                true => format!("{}… [cut]", &hit.text[..cut]),
                false => hit.text,
            };
            let index = hit.line.saturating_sub(1).to_string();
            let lines = hits.entry(hit.path).or_insert_with(|| Value::Object(Map::new()));
            if let Some(lines) = lines.as_object_mut() {
                lines.insert(index, Value::from(text));
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let mut value = json!({"ok": true, "hits": hits});
    if truncated {
        value["truncated"] = Value::from(true);
    }
    Ok(answer(&value))
}

/// All bytes of a file and the version that they are.
pub(crate) fn whole(repository: &dyn Repository, path: &str) -> Result<Chunk, Trouble> {
    let mut file = repository.read(path, 0, MAX_FILE)?;
    if file.size > MAX_FILE {
        return Err(Refused::new("too_large")
            .with("size", file.size)
            .with("max_size", MAX_FILE)
            .into());
    }
    while (file.bytes.len() as u64) < file.size {
        let rest = repository.read(path, file.bytes.len() as u64, MAX_FILE)?;
        // Parts of two versions would make a file that never was.
        if rest.version != file.version || rest.bytes.is_empty() {
            return Err(Denial::Conflict(Some(rest.version)).into());
        }
        file.bytes.extend(rest.bytes);
    }
    Ok(file)
}
