//! The tools `list`, `read` and `search`. Their answers are bounded and say how to go on.

use crate::answer::{Refused, Trouble};
use crate::path;
use act_kit::tool::Outcome;
use act_kit::world::{Entry, Kind, Repository, Selection, Slice, Version};
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
    Outcome::text(value.to_string())
}

/// Every file below `path`; when those are too many, its own names, directories with how much is in them.
pub(crate) fn list(repository: &impl Repository, path: &str) -> Result<Outcome, Trouble> {
    let path = path::clean(path)?;
    let under = if path.is_empty() { vec![] } else { vec![path.clone()] };
    let want = Selection { under, globs: vec![], kinds: vec![] };
    let found = repository.list_all(&want, SEEN)?;
    let (entries, mut truncated) = (found.items, found.truncated);
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
    repository: &impl Repository,
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
    repository: &impl Repository,
    pattern: &str,
    glob: Option<&str>,
) -> Result<Outcome, Trouble> {
    let found = repository.search_all(pattern, glob, HITS)?;
    let mut hits = Map::new();
    for hit in found.items {
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
    let mut value = json!({"ok": true, "hits": hits});
    if found.truncated {
        value["truncated"] = Value::from(true);
    }
    Ok(answer(&value))
}

/// All bytes of a file, and their version.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: Vec<u8>,
    pub(crate) version: Version,
}

/// Reads a whole file.
///
/// # Errors
///
/// `too_large` for a file over [`MAX_FILE`]; `version_mismatch` when the file changes between two reads, because parts of
/// two versions would make a file that never existed; else the host's refusal.
pub(crate) fn whole(repository: &impl Repository, path: &str) -> Result<Whole, Trouble> {
    let (mut bytes, size, version) = slice(repository, path, 0, MAX_FILE)?;
    if size > MAX_FILE {
        return Err(Refused::new("too_large").with("size", size).with("max_size", MAX_FILE).into());
    }
    while (bytes.len() as u64) < size {
        let (more, _, now) = slice(repository, path, bytes.len() as u64, MAX_FILE)?;
        if now != version || more.is_empty() {
            return Err(Refused::stale(now.number).into());
        }
        bytes.extend(more);
    }
    Ok(Whole { bytes, version })
}

/// Reads at most `length` bytes of a file: the bytes, the size of the whole file and its version.
///
/// # Errors
///
/// The host's refusal.
pub(crate) fn slice(
    repository: &impl Repository,
    path: &str,
    offset: u64,
    length: u64,
) -> Result<(Vec<u8>, u64, Version), Trouble> {
    let failed = |why: &str| Trouble::Failed(why.to_owned());
    let want = Slice { path: path.to_owned(), offset, length: Some(length), with_version: true };
    let chunk = repository.read_slices(&[want]).pop();
    let chunk = chunk.ok_or_else(|| failed("the host gave no answer"))??;
    let version = chunk.version.ok_or_else(|| failed("the host gave no version"))?;
    Ok((chunk.bytes, chunk.size, version))
}
