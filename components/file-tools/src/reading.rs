//! The tools `list`, `read` and `search`. Their answers are bounded and say how to go on.

use crate::answer::{Refused, Trouble};
use crate::path;
use act_kit::tool::Outcome;
use act_kit::world::{Entry, Kind, Repository, Selection, Slice, Version};
use edit_protocol::{Document, Reason};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// With more names than this, a listing shows directories with their numbers of files.
const LISTED: usize = 200;
/// Maximum number of names that a listing reads.
const SEEN: usize = 50_000;
/// Maximum number of lines and of bytes of text in one answer of `read`.
const READ_LINES: usize = 500;
const READ_BYTES: usize = 24 * 1024;
/// Maximum number of bytes of a line that are shown. A longer line can only be replaced as a whole.
const LINE_BYTES: usize = 2_000;
/// Maximum number of hits in one answer of `search`, and of bytes of the text of each.
const HITS: usize = 100;
const HIT_BYTES: usize = 200;
/// Maximum size of a file that can be read or edited, in bytes.
pub(crate) const MAX_FILE: u64 = 4 << 20;

fn answer(value: &Value) -> Outcome {
    Outcome::text(value.to_string())
}

/// Lists every file below `path`. With too many files it lists the names in `path`, and directories with their numbers of
/// files.
///
/// # Errors
///
/// `outside_repo`, `not_found`, or the host's refusal.
pub(crate) fn list(repository: &impl Repository, path: &str) -> Result<Outcome, Trouble> {
    let path = path::clean(path)?;
    let under = if path.is_empty() { vec![] } else { vec![path.clone()] };
    let want = Selection { under, globs: vec![], kinds: vec![] };
    let found = repository.list_all(&want, SEEN)?;
    let (entries, mut truncated) = (found.items, found.truncated);
    if entries.is_empty() && !path.is_empty() {
        return Err(Refused::new(Reason::NotFound)
            .message("nothing there, or nothing in view")
            .into());
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

/// Returns the real path of the directory that was listed as `path`, which may be a link. The first entry in path order lies
/// in the directory itself.
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

/// Folds a listing to one level: files by name, directories as `dir/ (12 files)`.
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

/// Reads the lines `start..end` of a file by index, with the file's version.
///
/// # Errors
///
/// As [`whole`]; `binary`, `index_out_of_bounds`, or `bad_arguments` for a range that ends before it starts.
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
        return Err(Refused::new(Reason::BadArguments).message(&message).into());
    }
    if start > count {
        return Err(Refused::new(Reason::IndexOutOfBounds)
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

/// Searches for lines that match. The answer has them by path and index.
///
/// # Errors
///
/// The host's refusal.
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
        return Err(Refused::new(Reason::TooLarge)
            .with("size", size)
            .with("max_size", MAX_FILE)
            .into());
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
