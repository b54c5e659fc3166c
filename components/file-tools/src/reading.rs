//! The tools `list`, `read` and `search`. Their answers are bounded and say how to go on.

use crate::answer::{Refused, Trouble};
use crate::{path, shown};
use act_kit::tool::Outcome;
use act_kit::world::{Entry, Hit, Kind, Pattern, Refusal, Repository, Selection, Slice, Version};
use edit_protocol::{Document, Reason};
use std::collections::{BTreeMap, BTreeSet};

/// With more names than this, a listing shows directories with their numbers of files.
const LISTED: usize = 200;
/// Maximum number of names that a listing reads.
const SEEN: usize = 50_000;
/// Maximum number of lines and of bytes of text of one file in an answer of `read`.
const READ_LINES: usize = 500;
const READ_BYTES: usize = 24 * 1024;
/// Maximum number of bytes in one answer of `read`, about 16,000 tokens.
const ANSWER_BYTES: usize = 64 * 1024;
/// The rest of a file is shown where it has fewer lines and bytes than this, because another call costs more.
const REST_LINES: usize = 20;
const REST_BYTES: usize = 2 * 1024;
/// Maximum number of files in one call of `read`.
const FILES: usize = 32;
/// Maximum number of bytes of a line that are shown. A longer line can only be replaced as a whole.
const LINE_BYTES: usize = 2_000;
/// Maximum number of hits in one answer of `search`, of bytes of the text of each, of lines around each, and of bytes in all.
const HITS: usize = 100;
const HIT_BYTES: usize = 200;
pub(crate) const CONTEXT: usize = 10;
const SEARCH_BYTES: usize = 24 * 1024;
/// Maximum size of a file that can be read or edited, in bytes.
pub(crate) const MAX_FILE: u64 = 4 << 20;

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
        let message =
            format!("{} has no file in view{}", shown::path(&path), shown::near(repository, &path));
        return Err(Refused::new(Reason::NotFound, message).into());
    }
    let leaves = entries.iter().filter(|entry| entry.kind != Kind::Directory).collect::<Vec<_>>();
    let names = match leaves.len() > LISTED {
        true => folded(base(&path, &entries), &leaves),
        false => leaves.into_iter().map(name).collect::<Vec<_>>(),
    };
    truncated |= names.len() > LISTED * 2;
    if names.is_empty() {
        return Ok(Outcome::text("no file is in view"));
    }
    let mut lines = names;
    lines.truncate(LISTED * 2);
    if truncated {
        lines.push("… there are more; list a directory of them".to_owned());
    }
    Ok(Outcome::text(lines.join("\n")))
}

fn name(entry: &Entry) -> String {
    match entry.kind {
        Kind::Link => format!("{}@", shown::path(&entry.path)),
        _ => shown::path(&entry.path),
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
                let directory = shown::path(&format!("{}{directory}/", &entry.path[..below]));
                *names.entry(directory).or_default() += 1;
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

/// Lines of a file that the model asks for, from 1, both ends included.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) path: String,
    pub(crate) start: Option<usize>,
    pub(crate) end: Option<usize>,
}

/// Reads lines of files. A refusal of one file is shown in its place, unless every file is refused.
///
/// # Errors
///
/// `bad_arguments` for no file or too many; for the only file, or the first of files that are all refused, as [`lines_of`].
pub(crate) fn read(repository: &impl Repository, wanted: &[Wanted]) -> Result<Outcome, Trouble> {
    if wanted.is_empty() || wanted.len() > FILES {
        let message = format!("name 1 to {FILES} files, by `path` or by `files`");
        return Err(Refused::new(Reason::BadArguments, message).into());
    }
    let mut parts: Vec<String> = vec![];
    let mut refused = vec![];
    for wanted in wanted {
        let room = ANSWER_BYTES.saturating_sub(parts.iter().map(String::len).sum());
        match lines_of(repository, wanted, room) {
            Ok(part) => parts.push(part),
            Err(Trouble::Refused(why)) => {
                parts.push(format!("{} · {}", shown::path(&wanted.path), why.text()));
                refused.push(why);
            }
            Err(failed) => return Err(failed),
        }
    }
    match refused.len() == wanted.len() {
        true => Err(refused.swap_remove(0).into()),
        false => Ok(Outcome::text(parts.join("\n\n"))),
    }
}

/// Shows lines of a file below its header, in at most `room` bytes or so.
///
/// # Errors
///
/// As [`whole`]; `binary`, `index_out_of_bounds`, or `bad_arguments` for a range that ends before it starts.
fn lines_of(repository: &impl Repository, wanted: &Wanted, room: usize) -> Result<String, Trouble> {
    let path = path::clean_file(&wanted.path)?;
    if room == 0 {
        return Err(
            Refused::new(Reason::Budget, "this answer is full; read it in another call").into()
        );
    }
    let file = whole(repository, &path)?;
    let document = Document::parse(&file.bytes)?;
    let count = document.lines.len();
    let (start, end) = (wanted.start.unwrap_or(1), wanted.end.unwrap_or(usize::MAX));
    if start == 0 || start > count.max(1) {
        let message = format!("{} has {count} lines, counted from 1", shown::path(&path));
        return Err(Refused::new(Reason::IndexOutOfBounds, message).into());
    }
    if start > end {
        let message = format!("start {start} is behind end {end}");
        return Err(Refused::new(Reason::BadArguments, message).into());
    }

    let (first, end) = (start - 1, end.min(count));
    let line = |(index, line): (usize, &edit_protocol::Line<'_>)| {
        shown::line(index, '|', &line.shown(), LINE_BYTES)
    };
    let mut lines = document.lines.iter().enumerate().take(end).skip(first).map(line).peekable();
    let (mut text, mut next) = (String::new(), first);
    while let Some(line) = lines.next_if(|line| {
        next - first < READ_LINES
            && (next == first || text.len() + line.len() <= READ_BYTES.min(room))
    }) {
        text.push_str(&format!("\n{line}"));
        next += 1;
    }
    let rest: Vec<_> = lines.by_ref().take(REST_LINES).collect();
    let is_short =
        rest.len() < REST_LINES && rest.iter().map(String::len).sum::<usize>() < REST_BYTES;
    if is_short {
        next += rest.len();
        rest.iter().for_each(|line| text.push_str(&format!("\n{line}")));
    }
    let header = shown::header(&path, file.version.number, &document, first..next);
    if next < end {
        text.push_str(&format!("\n… {} lines more; read on with start {}", end - next, next + 1));
    }
    Ok(format!("{header}{text}"))
}

/// Searches for lines that match, and shows them with `context` lines on either side.
///
/// # Errors
///
/// The host's refusal.
pub(crate) fn search(
    repository: &impl Repository,
    pattern: &Pattern,
    glob: Option<&str>,
    context: usize,
) -> Result<Outcome, Trouble> {
    let found = repository.find_all(pattern, glob, HITS)?;
    if found.items.is_empty() {
        return Ok(Outcome::text("no line matches"));
    }
    let mut files = BTreeMap::<String, Vec<Hit>>::new();
    for hit in found.items {
        files.entry(hit.path.clone()).or_default().push(hit);
    }
    let (mut text, mut is_cut) = (String::new(), found.truncated);
    for (path, hits) in files {
        let shown = match context {
            0 => None,
            _ => in_context(repository, &path, &hits, context),
        };
        let shown = shown.unwrap_or_else(|| {
            let lines = hits.iter().map(|hit| found_line(hit.line as usize, '|', &hit.text));
            let header = shown::path(&path);
            std::iter::once(header).chain(lines).collect::<Vec<_>>().join("\n")
        });
        if !text.is_empty() && text.len() + shown.len() > SEARCH_BYTES {
            is_cut = true;
            break;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&shown);
    }
    if is_cut {
        text.push_str("\n… there are more; narrow the pattern or the glob");
    }
    Ok(Outcome::text(text))
}

/// Shows hits of one file with the lines around them: `41| hit`, `42- other`. `None` for a file that cannot be read whole.
fn in_context(
    repository: &impl Repository,
    path: &str,
    hits: &[Hit],
    context: usize,
) -> Option<String> {
    let file = whole(repository, path).ok()?;
    let document = Document::parse(&file.bytes).ok()?;
    let count = document.lines.len();
    let is_hit: BTreeSet<usize> =
        hits.iter().map(|hit| (hit.line as usize).saturating_sub(1)).collect();
    let mut text = format!("{} · version {}", shown::path(path), file.version.number);
    let mut next = 0;
    for hit in &is_hit {
        let (from, to) = (hit.saturating_sub(context).max(next), (hit + context + 1).min(count));
        if next > 0 && from > next {
            text.push_str("\n…");
        }
        for index in from..to {
            let mark = if is_hit.contains(&index) { '|' } else { '-' };
            let line = found_line(index + 1, mark, &document.lines[index].shown());
            text.push_str(&format!("\n{line}"));
        }
        next = next.max(to);
    }
    Some(text)
}

/// One line of a search's answer. The host may have cut the text already, so the number of missing bytes is not known.
fn found_line(number: usize, mark: char, text: &str) -> String {
    let cut = text.floor_char_boundary(HIT_BYTES.min(text.len()));
    let more = if cut < text.len() { "… [cut]" } else { "" };
    format!("{number}{mark} {}{more}", &text[..cut])
}

/// Returns a regular expression that matches exactly this text.
pub(crate) fn escape(text: &str) -> String {
    let special = |c: char| r"\.+*?()|[]{}^$#&-~".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
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
        return Err(too_large(size).into());
    }
    while (bytes.len() as u64) < size {
        let (more, _, now) = slice(repository, path, bytes.len() as u64, MAX_FILE)?;
        if now != version || more.is_empty() {
            return Err(Refused::stale(&shown::path(path), now.number).into());
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
    let chunk = match chunk.ok_or_else(|| failed("the host gave no answer"))? {
        Err(Refusal::NotFound) => return Err(missing(repository, path).into()),
        chunk => chunk?,
    };
    let version = chunk.version.ok_or_else(|| failed("the host gave no version"))?;
    Ok((chunk.bytes, chunk.size, version))
}

/// The refusal of a path that names no file in view, with similar names.
fn missing(repository: &impl Repository, path: &str) -> Refused {
    let similar = shown::near(repository, path);
    Refused::new(Reason::NotFound, format!("no file in view is {}{similar}", shown::path(path)))
}

/// The refusal of a file of this size in bytes.
pub(crate) fn too_large(size: u64) -> Refused {
    let message =
        format!("{size} bytes are over the limit of {MAX_FILE} for a file that is read or edited");
    Refused::new(Reason::TooLarge, message)
}
