//! The tools `list`, `read` and `search`. Their answers are bounded and say how to go on.

use crate::answer::{Refused, Trouble};
use crate::{path, shown};
use act_kit::tool::Outcome;
use act_kit::world::{
    Entry, Hit, Kind, Pattern, Refusal, Repository, Selection, Slice, Symbol, Version,
};
use act_reports::source;
use edit_protocol::{Document, Reason};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// With more names than this, a listing shows directories with their numbers of files.
const LISTED: usize = 200;
/// Maximum number of names that a listing reads.
const SEEN: usize = 50_000;
/// Maximum number of lines and of bytes of text of one file in an answer of `read`, for a range with both ends.
const RANGE: Most = Most { lines: 500, bytes: 24 * 1024 };
/// The bounds of a file that is asked for without a range, about 4,000 tokens: most source files fit. A larger one is shown
/// by its outline, because a model needs a few ranges of it and pays for every line in each later request.
const WHOLE: Most = Most { lines: 400, bytes: 16 * 1024 };
/// The bounds of the lines after a start without an end, and of the beginning of a large file without an outline.
const PAGE: Most = Most { lines: 200, bytes: 10 * 1024 };
/// The bounds of the lines above an outline: the comment and the imports at the top of a file.
const HEAD: Most = Most { lines: 30, bytes: 2 * 1024 };
/// Maximum number of bytes of an outline. In a longer one, definitions inside of others are left out.
const OUTLINE_BYTES: usize = 8 * 1024;
/// Maximum number of bytes in one answer of `read`, about 16,000 tokens.
const ANSWER_BYTES: usize = 64 * 1024;
/// The rest of a file is shown where it has fewer lines and bytes than this, because another call costs more.
const REST_LINES: usize = 20;
const REST_BYTES: usize = 2 * 1024;
/// Maximum number of files in one call of `read`.
const FILES: usize = 32;
/// Maximum number of bytes of a line that are shown. A longer line can only be replaced as a whole.
const LINE_BYTES: usize = 2_000;
/// Maximum number of matching lines that a search collects to choose from.
const HITS: usize = 1_000;
/// Maximum number of matching lines in one answer of `search`, and of lines with those around them.
const SHOWN_HITS: usize = 40;
const SHOWN_LINES: usize = 100;
/// Matching lines of one file that are shown before other files get a share.
const FIRST_HITS: usize = 6;
/// Maximum number of bytes of a matching line and of an answer of `search`, about 2,000 tokens.
const HIT_BYTES: usize = 200;
const SEARCH_BYTES: usize = 8 * 1024;
/// Maximum number of definitions that are named for one file, and of lines of one: a larger one is no range to read.
const DEFINITIONS: usize = 8;
const DEFINITION_LINES: u32 = 200;
/// Maximum number of lines around a match.
pub(crate) const CONTEXT: usize = 10;
/// Maximum number of places, and of files, that are named without their lines.
const NAMED: usize = 20;
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
    if entries.is_empty() && found.not_utf8 == 0 && !path.is_empty() {
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
    let mut lines = names;
    if lines.is_empty() {
        lines.push("no file is in view".to_owned());
    }
    lines.truncate(LISTED * 2);
    if truncated {
        lines.push("… there are more; list a directory of them".to_owned());
    }
    match found.not_utf8 {
        0 => {}
        1 => lines.push("… and 1 name that is not UTF-8, which no tool can open".to_owned()),
        more => {
            lines.push(format!("… and {more} names that are not UTF-8, which no tool can open"))
        }
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
    let most = match (wanted.start, wanted.end) {
        (_, Some(_)) => RANGE,
        (Some(_), None) => PAGE,
        (None, None) => WHOLE,
    };
    let lines = Lines { document: &document, shown: first..end };
    let outline = match (wanted.start, wanted.end) {
        (None, None) if !lines.fit(&most.within(room)) => outline(repository, &path),
        _ => None,
    };
    let most = match &outline {
        Some(_) => HEAD,
        None if most == WHOLE && !lines.fit(&most.within(room)) => PAGE,
        None => most,
    };
    let (text, next) = lines.text(&most.within(room));
    let header = shown::header(&path, file.version.number, &document, first..next);
    let more = match outline {
        Some(outline) => {
            format!("\n… the outline of its {count} lines; read the ranges you need\n{outline}")
        }
        None if next < end => {
            format!("\n… {} lines more; read on with start {}", end - next, next + 1)
        }
        None => String::new(),
    };
    Ok(format!("{header}{text}{more}"))
}

/// Bounds of the text of one file in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Most {
    lines: usize,
    bytes: usize,
}

impl Most {
    /// These bounds, in at most `room` bytes.
    fn within(&self, room: usize) -> Self {
        Self { bytes: self.bytes.min(room), ..*self }
    }
}

/// Lines of a file by index, the end exclusive.
struct Lines<'a> {
    document: &'a Document<'a>,
    shown: Range<usize>,
}

impl Lines<'_> {
    fn line(&self, index: usize) -> String {
        shown::line(index, '|', &self.document.lines[index].shown(), LINE_BYTES)
    }

    /// Returns whether [`Lines::text`] shows all of them.
    fn fit(&self, most: &Most) -> bool {
        self.text(most).1 == self.shown.end
    }

    /// Shows the first lines within bounds, at least one, and returns the index of the next. A rest that is smaller than the
    /// call that would ask for it is shown as well.
    fn text(&self, most: &Most) -> (String, usize) {
        let Range { start, end } = self.shown;
        let (mut text, mut next) = (String::new(), start);
        while next < end && next - start < most.lines {
            let line = self.line(next);
            if next > start && text.len() + line.len() > most.bytes {
                break;
            }
            text.push_str(&format!("\n{line}"));
            next += 1;
        }
        let rest: Vec<_> = (next..end).take(REST_LINES).map(|index| self.line(index)).collect();
        if rest.len() < REST_LINES && rest.iter().map(String::len).sum::<usize>() < REST_BYTES {
            next += rest.len();
            rest.iter().for_each(|line| text.push_str(&format!("\n{line}")));
        }
        (text, next)
    }
}

/// The definitions in a file, one a line: `163-192 type ParameterSource`. `None` for a file that no parser can read, or that
/// defines nothing.
fn outline(repository: &impl Repository, path: &str) -> Option<String> {
    let outline = repository.outline_page(&[path.to_owned()]).pop()?.ok()?;
    let rows = |symbols: &[&Symbol]| symbols.iter().map(|symbol| row(symbol)).collect::<Vec<_>>();
    let size = |rows: &[String]| rows.iter().map(|row| row.len() + 1).sum::<usize>();
    let all: Vec<&Symbol> = outline.symbols.iter().collect();
    let mut shown = rows(&all);
    if size(&shown) > OUTLINE_BYTES {
        let outer: Vec<&Symbol> =
            all.iter().copied().filter(|symbol| symbol.container.is_none()).collect();
        shown = rows(&outer);
        let (mut bytes, mut fit) = (0, 0);
        for row in &shown {
            bytes += row.len() + 1;
            if bytes > OUTLINE_BYTES {
                break;
            }
            fit += 1;
        }
        shown.truncate(fit);
        shown.push(format!("… {} definitions more; search for them", all.len() - fit));
    }
    (!all.is_empty()).then(|| shown.join("\n"))
}

fn row(symbol: &Symbol) -> String {
    let container = symbol.container.iter().map(|name| format!("{name}.")).collect::<String>();
    let (first, last) = (symbol.first_line, symbol.last_line);
    shown::path(&format!("{first}-{last} {} {container}{}", symbol.kind, symbol.name))
}

/// The last line of an answer when the search ended early.
const NOT_EVERYTHING: &str = "\n… not everything was searched; narrow the pattern or the glob";

/// Searches for lines that match, and shows them with `context` lines on either side: source before tests before documents,
/// each file with a share of the answer. Matches without room are named by their lines, and files by their names.
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
        let why = repository.without_hits(glob)?;
        let rest = if found.truncated { NOT_EVERYTHING } else { "" };
        return Ok(Outcome::text(format!("{why}{rest}")));
    }
    let mut files = BTreeMap::<String, Vec<Hit>>::new();
    for hit in found.items {
        files.entry(hit.path.clone()).or_default().push(hit);
    }
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_by_key(|(path, _)| source::kind(path));
    let room = SHOWN_HITS.min(SHOWN_LINES / (2 * context + 1));
    let counts: Vec<_> = files.iter().map(|(_, hits)| hits.len()).collect();
    let (mut text, mut left_out) = (String::new(), vec![]);
    for ((path, hits), share) in files.iter().zip(shares(&counts, room)) {
        let shown = (share > 0).then(|| matches(repository, path, hits, share, context));
        match shown {
            Some(shown) if text.is_empty() || text.len() + shown.len() <= SEARCH_BYTES => {
                text.push_str(if text.is_empty() { "" } else { "\n" });
                text.push_str(&shown);
            }
            _ => left_out.push(format!("{} ({})", shown::path(path), hits.len())),
        }
    }
    if !left_out.is_empty() {
        let more = left_out.len().saturating_sub(NAMED);
        left_out.truncate(NAMED);
        let more = if more > 0 { format!(" and {more} files more") } else { String::new() };
        text.push_str(&format!("\n… also in {}{more}", left_out.join(", ")));
    }
    if found.truncated {
        text.push_str(NOT_EVERYTHING);
    }
    Ok(Outcome::text(text))
}

/// Divides the room for matches among files: first up to [`FIRST_HITS`] each, then the rest, both in order.
fn shares(counts: &[usize], mut room: usize) -> Vec<usize> {
    let mut shares = vec![0; counts.len()];
    for most in [FIRST_HITS, usize::MAX] {
        for (share, count) in shares.iter_mut().zip(counts) {
            let more = (*count.min(&most) - *share).min(room);
            *share += more;
            room -= more;
        }
    }
    shares
}

/// Shows the first `share` matches in a file below a header with its version: `41| match`, `42- other`. The lines of the other
/// matches are named.
fn matches(
    repository: &impl Repository,
    path: &str,
    hits: &[Hit],
    share: usize,
    context: usize,
) -> String {
    let (shown, rest) = hits.split_at(share.min(hits.len()));
    let is_cut = |hit: &Hit| hit.text.len() > HIT_BYTES;
    let file = match context > 0 || shown.iter().any(is_cut) {
        true => whole(repository, path).ok(),
        false => None,
    };
    let version = match &file {
        Some(file) => Some(file.version.number),
        None => slice(repository, path, 0, 0).ok().map(|(_, _, version)| version.number),
    };
    let document = file.as_ref().and_then(|file| Document::parse(&file.bytes).ok());
    let mut text = shown::path(path);
    text.push_str(&version.map(|version| format!(" · version {version}")).unwrap_or_default());
    let rows = match &document {
        Some(document) => in_context(document, shown, context),
        None => shown
            .iter()
            .map(|hit| format!("\n{}| {}", hit.line, window(&hit.text, hit.column as usize)))
            .collect(),
    };
    text.push_str(&rows);
    let lines: Vec<_> = shown.iter().map(|hit| hit.line).collect();
    text.push_str(&definitions(repository, path, &lines));
    if !rest.is_empty() {
        let lines: Vec<_> = rest.iter().map(|hit| hit.line).collect();
        text.push_str(&format!("\n… {} more at {}", rest.len(), places(&lines)));
    }
    text
}

/// Names the smallest definitions around these lines, as ranges to read: `in 2587-2672 Parameter.handle_parse_result`. Empty
/// where no parser knows any.
fn definitions(repository: &impl Repository, path: &str, lines: &[u32]) -> String {
    if !source::language(path).is_some_and(source::is_parsed) {
        return String::new();
    }
    let outline = repository.outline_page(&[path.to_owned()]).pop();
    let Some(Ok(outline)) = outline else { return String::new() };
    let around = |line: &u32| {
        let symbols = outline.symbols.iter();
        let holds = symbols.filter(|symbol| (symbol.first_line..=symbol.last_line).contains(line));
        let smallest =
            holds.min_by_key(|symbol| symbol.last_line.saturating_sub(symbol.first_line))?;
        let lines = smallest.last_line.saturating_sub(smallest.first_line).saturating_add(1);
        (2..=DEFINITION_LINES).contains(&lines).then(|| {
            let container = smallest.container.iter().map(|name| format!("{name}."));
            let name = container.collect::<String>() + &smallest.name;
            (smallest.first_line, smallest.last_line, shown::path(&name))
        })
    };
    let found: BTreeSet<_> = lines.iter().filter_map(around).collect();
    let named = found.iter().take(DEFINITIONS);
    let named: Vec<_> = named.map(|(first, last, name)| format!("{first}-{last} {name}")).collect();
    match named.is_empty() {
        true => String::new(),
        false => format!("\nin {}", named.join(", ")),
    }
}

/// Lines of matches, with lines that follow each other as a range: `12, 40-44`.
fn places(lines: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = vec![];
    for &line in lines {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 >= line => *last = line,
            _ => ranges.push((line, line)),
        }
    }
    let more = if ranges.len() > NAMED { ", …" } else { "" };
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().take(NAMED).map(range).collect::<Vec<_>>().join(", ") + more
}

fn in_context(document: &Document<'_>, hits: &[Hit], context: usize) -> String {
    let count = document.lines.len();
    let columns: BTreeMap<usize, usize> = hits
        .iter()
        .map(|hit| ((hit.line as usize).saturating_sub(1), hit.column as usize))
        .collect();
    let mut text = String::new();
    let mut next = 0;
    for hit in columns.keys() {
        let (from, to) = (hit.saturating_sub(context).max(next), (hit + context + 1).min(count));
        if context > 0 && next > 0 && from > next {
            text.push_str("\n…");
        }
        for index in from..to {
            let line = document.lines[index].shown();
            text.push_str(&match columns.get(&index) {
                Some(column) => format!("\n{}| {}", index + 1, window(&line, *column)),
                None => format!("\n{}- {}", index + 1, window(&line, 1)),
            });
        }
        next = next.max(to);
    }
    text
}

/// The part of a long line around the column of a match, which counts bytes from 1.
fn window(line: &str, column: usize) -> Cow<'_, str> {
    if line.len() <= HIT_BYTES {
        return line.into();
    }
    let before = match column.saturating_sub(1) {
        near if near < HIT_BYTES / 2 => 0,
        far => far.min(line.len()) - HIT_BYTES / 4,
    };
    let start = line.floor_char_boundary(before);
    let end = line.floor_char_boundary((start + HIT_BYTES).min(line.len()));
    let part = &line[start..end];
    match (start > 0, end < line.len()) {
        (true, true) => format!("…{part}… (column {column})").into(),
        (true, false) => format!("…{part} (column {column})").into(),
        (false, _) => format!("{part}…").into(),
    }
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
