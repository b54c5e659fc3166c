//! The capability `repo.read`: the filtered view of the repository, as the preopened directory `/repo` (`files`), in
//! batches through `repo.read` (here), and as outlines through `repo.symbols` (`symbols`).

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use act_fs::Sha256;
use hashbrown::HashTable;
use sha2::Digest as _;
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::p2::bindings::filesystem;

use super::{Access, Capability, Grant, Import, Metered, Need, joined};
use crate::bindings::read::{
    self, Chunk, Counted, Entries, Entry, Hit, Hits, Host, Pattern, Selection, Slice,
};
use crate::bindings::types::{self, Refusal};
use crate::bindings::{refusal_text, symbols};
use crate::bounds::{Bound, Element, Set, at_most, bounds};
use crate::call::State;
use crate::files::{self, HasFiles};
use crate::limits::Limits;
use crate::meter::{Count, Meter};
use crate::values::value;
use act_workspace::{
    self, Kind, MAX_ENTRIES, MAX_READ, ReadError, Reader, RepoView, SearchError, SelectionError,
    Version, Versions, ViewError, is_at_or_below,
};

/// Bytes that a hit costs beside its text, out of the bytes that may be read.
const HIT_BYTES: u64 = 64;
/// Longest path of a grant, in bytes.
const MAX_PATH: usize = 1024;
/// Bytes of paths that one call holds to name its files by one digest. Files beyond are counted without a name.
const MAX_NAMES: usize = 16 << 20;

value!(
    /// A file or directory of the repository, everything below it included.
    RepoPart,
    is_repo_part
);

fn is_repo_part(text: &str) -> Result<(), String> {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    if text.len() > MAX_PATH
        || text.chars().any(char::is_control)
        || text.contains('\\')
        || !text.split('/').all(plain)
    {
        return Err(format!(
            "`{}` is not a path in the repository; write it like `src/lib`",
            text.escape_debug()
        ));
    }
    Ok(())
}

/// Returns a path with its blanks as codes. A path is somebody else's text in a line of act, and blanks would let it choose
/// where a row of that line begins.
fn one_word(path: &str) -> String {
    let code = |c: char| c.is_whitespace().then(|| c.escape_unicode().to_string());
    path.chars().map(|c| code(c).unwrap_or_else(|| c.to_string())).collect()
}

impl RepoPart {
    fn covers(&self, path: &str) -> bool {
        is_at_or_below(path.as_bytes(), self.as_str().as_bytes())
    }
}

/// The meet of two paths is the deeper one if it lies in the other.
impl Element for RepoPart {
    fn meet(a: &BTreeSet<Self>, b: &BTreeSet<Self>) -> BTreeSet<Self> {
        let deeper = |a: &Self, b: &Self| {
            if b.covers(a.as_str()) {
                Some(a.clone())
            } else {
                a.covers(b.as_str()).then(|| b.clone())
            }
        };
        a.iter().flat_map(|a| b.iter().filter_map(move |b| deeper(a, b))).collect()
    }
}

bounds! {
    /// Reading the filtered view of the repository.
    #[serde(default)]
    pub struct RepoRead, ceiling RepoReadCeiling {
        /// The parts of the view that may be read.
        #[serde(skip_serializing_if = "Set::is_any")]
        paths: Set<RepoPart> = Set::Any;
        /// Bytes that may be read of any one file.
        #[serde(deserialize_with = "at_most::<{ 1 << 30 }, _, _>")]
        file_bytes: u64 = 16 << 20;
        /// Bytes that one call may read in all. By default a tree of a quarter of a gigabyte can be read twice.
        #[serde(deserialize_with = "at_most::<{ 64 << 30 }, _, _>")]
        query_bytes: u64 = 512 << 20;
    }
}

impl RepoRead {
    /// Returns true if the granted paths cover `path`. Writes and `act components why` ask this function. Reads ask the
    /// view, which adds the directories on the way to a granted path.
    pub fn covers(&self, path: &str) -> bool {
        match &self.paths {
            Set::Any => true,
            Set::Only(parts) => parts.iter().any(|part| part.covers(path)),
        }
    }
}

pub(crate) struct Rules;

impl super::Rules for Rules {
    type Bounds = Option<RepoRead>;
    type Ceiling = RepoReadCeiling;
    type Meters = ReadMeters;
    const MEANING: &'static str = "reads files of the repository, except secrets and hidden files";
    const IS_TABLE: bool = true;

    fn meters(read: &Option<RepoRead>, _limits: &Limits) -> ReadMeters {
        let bytes = read.as_ref().map_or(0, |read| read.query_bytes);
        ReadMeters {
            bytes: Meter::new("repo.read.bytes", bytes),
            opened: Count::default(),
            files: Mutex::default(),
        }
    }

    fn is_behind(import: &Import<'_>) -> bool {
        matches!(
            import.interface,
            "agentcommand:repo/read" | "agentcommand:repo/symbols" | "wasi:filesystem/preopens"
        )
    }

    fn requested(need: &Need) -> Option<RepoRead> {
        let paths = match need.paths.as_slice() {
            [] => Set::Any,
            paths => paths.iter().cloned().collect(),
        };
        Some(RepoRead { paths, ..RepoRead::unlimited() })
    }

    fn usual() -> Option<RepoRead> {
        Some(RepoRead::default())
    }

    fn in_words(read: &Option<RepoRead>) -> Option<String> {
        match &read.as_ref()?.paths {
            Set::Any => None,
            Set::Only(parts) if parts.is_empty() => Some("of nothing".to_owned()),
            Set::Only(parts) => {
                Some(format!("of {}", joined(parts.iter().map(|part| one_word(part.as_str())))))
            }
        }
    }

    fn covers(grant: &Grant, access: &Access) -> bool {
        grant.repo_read.as_ref().is_some_and(|read| match access {
            Access::Read(path) => read.covers(path),
            _ => true,
        })
    }

    fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
        filesystem::types::add_to_linker::<State, HasFiles>(linker, files::of)?;
        filesystem::preopens::add_to_linker::<State, HasFiles>(linker, files::of)?;
        read::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
        symbols::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
    }
}

/// The meters for the files that one call reads.
#[derive(Debug)]
pub(crate) struct ReadMeters {
    pub(crate) bytes: Meter,
    pub(crate) opened: Count,
    files: Mutex<Files>,
}

/// The paths of files, each once. A repository may have 100,000 of them, so they are not allocated one by one.
#[derive(Debug, Default)]
struct Files {
    /// The paths, one behind the other, in the order in which they were read first.
    text: String,
    /// Where each path ends in `text`.
    ends: Vec<u32>,
    /// The places of the paths in `ends`, by their hashes.
    places: HashTable<u32>,
    hasher: RandomState,
    /// Reads of files for whose paths there was no room.
    unnamed: u64,
}

impl Files {
    fn add(&mut self, path: &str) {
        let Self { text, ends, places, hasher, unnamed } = self;
        let hash = hasher.hash_one(path);
        if places.find(hash, |at| path_at(text, ends, *at) == path).is_some() {
            return;
        }
        let number = (u32::try_from(text.len() + path.len()), u32::try_from(ends.len()));
        let (Ok(end), Ok(place)) = number else {
            *unnamed += 1;
            return;
        };
        if end as usize > MAX_NAMES {
            *unnamed += 1;
            return;
        }
        text.push_str(path);
        ends.push(end);
        places.insert_unique(hash, place, |at| hasher.hash_one(path_at(text, ends, *at)));
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        (0..).zip(&self.ends).map(|(at, _)| path_at(&self.text, &self.ends, at))
    }
}

/// Returns the path with this place in `ends`.
fn path_at<'t>(text: &'t str, ends: &[u32], at: u32) -> &'t str {
    let at = at as usize;
    let end = |at: usize| ends.get(at).map_or(0, |end| *end as usize);
    let start = at.checked_sub(1).map_or(0, end);
    text.get(start..end(at)).unwrap_or_default()
}

impl Metered for ReadMeters {
    fn is_used(&self) -> bool {
        self.opened.get() > 0
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        vec![
            ("files", files.ends.len() as u64),
            ("files_unnamed", files.unnamed),
            ("bytes", self.bytes.used()),
        ]
    }
}

impl ReadMeters {
    /// Notes that the content of a file, or what a search finds in it, is given to the component.
    pub(crate) fn file(&self, path: &str) {
        self.opened.add(1);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.add(path);
    }

    /// Number of files that were read.
    pub(crate) fn files(&self) -> u64 {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.ends.len() as u64 + files.unnamed
    }

    /// SHA-256 of the sorted paths, each followed by a line feed.
    pub(crate) fn files_sha256(&self) -> String {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut paths: Vec<_> = files.paths().collect();
        // The paths are in the order in which they were read, and a stable sort uses the runs in it.
        paths.sort();
        let mut list = sha2::Sha256::new();
        for path in paths {
            list.update(path);
            list.update("\n");
        }
        Sha256::from(list).to_string()
    }

    /// The entries of the root that files were read in; none if they are more than `most`, or not all known.
    pub(crate) fn parts(&self, most: usize) -> Vec<String> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let part = |path: &str| path.split('/').next().unwrap_or(path).to_owned();
        let parts: BTreeSet<_> = files.paths().map(part).collect();
        let is_complete = files.unnamed == 0 && parts.len() <= most;
        if is_complete { parts.into_iter().collect() } else { vec![] }
    }
}

/// The view of one call, and the bounds for reading it.
pub(crate) struct ReadAccess {
    pub(crate) view: RepoView,
    /// Counters of file versions, shared with the writer, so that an edit can expect what was read.
    pub(crate) versions: Option<Versions>,
    pub(crate) caps: RepoRead,
}

impl State {
    /// Returns the view of this call and counts its use, or the refusal of a component that may not read.
    fn reading(&self, object: &str) -> Result<&ReadAccess, Refusal> {
        let call = &self.call;
        let refused = || call.refuse(Capability::RepoRead, object);
        let reading = call.read.as_ref().ok_or_else(refused)?;
        call.meters.repo_read.opened.add(1);
        Ok(reading)
    }

    /// The refusal for the component. A hidden path looks as if it were not there, and the attempt is recorded.
    fn refuse_view(&mut self, asked: Option<&str>, error: &ViewError) -> Refusal {
        match error {
            ViewError::Excluded { path, .. } => self.call.deny(Capability::RepoRead, path),
            ViewError::NotPermitted { path, .. } => {
                self.call.deny(Capability::RepoRead, asked.unwrap_or(path));
            }
            _ => {}
        }
        match (error, error.word()) {
            (_, Some(word)) => Refusal::Invalid(refusal_text(word, error)),
            (ViewError::Io(_), None) => Refusal::Failed(error.to_string()),
            _ => Refusal::NotFound,
        }
    }

    /// The refusal for a listing or a search below the paths `under`.
    fn refuse_selection(&mut self, under: &[String], error: &SelectionError) -> Refusal {
        // The error names the part of the path that leads outside.
        let leads_out =
            |path: &&String| path.starts_with('/') || path.split('/').any(|part| part == "..");
        let asked = under.iter().find(leads_out).map(String::as_str);
        match error {
            SelectionError::View(error) => self.refuse_view(asked, error),
            _ => Refusal::Invalid(refusal_text("bad_arguments", error)),
        }
    }

    /// Returns one page of a listing. `function` is the object of the refusal of a listing of everything.
    fn listed(
        &mut self,
        function: &str,
        want: Selection,
        cursor: Option<&str>,
    ) -> wasmtime::Result<Result<Counted, Refusal>> {
        let under = want.under.clone();
        let view = match self.reading(under.first().map_or(function, String::as_str)) {
            Ok(reading) => reading.view.clone(),
            Err(refusal) => return Ok(Err(refusal)),
        };
        let listed = act_workspace::list(&view, &selection(want), cursor, MAX_ENTRIES);
        self.call.go_on()?;
        Ok(match listed {
            Ok(entries) => {
                let act_workspace::Entries { items, next, cut, not_utf8, .. } = entries;
                let items = items.into_iter().map(entry).collect();
                Ok(Counted { entries: Entries { items, next, truncated: cut }, not_utf8 })
            }
            Err(error) => Err(self.refuse_selection(&under, &error)),
        })
    }

    /// Reads all slices of one request, until a call is over for its caller.
    fn read_slices(&mut self, want: Vec<Slice>) -> wasmtime::Result<Vec<Result<Chunk, Refusal>>> {
        let mut room = self.call.grant.limits.host_call_bytes;
        let view = self.call.read.as_ref().map(|reading| reading.view.clone());
        let mut reader = view.as_ref().map(Reader::new);
        want.into_iter()
            .map(|slice| {
                self.call.go_on()?;
                Ok(match &mut reader {
                    Some(reader) => self.read_slice(reader, slice, &mut room),
                    None => Err(self.call.refuse(Capability::RepoRead, &slice.path)),
                })
            })
            .collect()
    }

    fn read_slice(
        &mut self,
        reader: &mut Reader<'_>,
        slice: Slice,
        room: &mut u64,
    ) -> Result<Chunk, Refusal> {
        let reading = self.reading(&slice.path)?;
        let most = reading.caps.file_bytes;
        let left = self.call.meters.repo_read.bytes.left();
        if slice.offset >= most || left == 0 {
            return Err(self.refuse_bytes(&slice.path));
        }
        // The size in the answer shows the component that the file continues, and it asks again.
        let allowed = left.min(most - slice.offset).min(*room);
        let want = act_workspace::Slice {
            path: slice.path,
            offset: slice.offset,
            length: Some(slice.length.unwrap_or(u64::MAX).min(allowed)),
            with_version: slice.with_version,
            // A version is the digest of the whole file, so the whole file is paid for. `file_bytes` bounds only the
            // bytes that are given away: the digest of a longer file reveals none of them.
            version_bytes: Some(left),
        };
        let reading = self.reading(&want.path)?;
        match reader.read(&want, reading.versions.as_ref()) {
            Ok(chunk) => {
                let given = chunk.bytes.len() as u64;
                let read = if want.with_version { chunk.size } else { given };
                self.call.meters.repo_read.bytes.spend(read);
                *room -= given.min(*room);
                let version = chunk.version.map(version);
                Ok(Chunk { bytes: chunk.bytes, size: chunk.size, version })
            }
            Err(ReadError::TooLarge { size, .. }) if size <= MAX_READ => {
                Err(self.refuse_bytes(&want.path))
            }
            Err(error) => Err(self.refuse_read(&want.path, error)),
        }
    }

    /// Records that no more bytes may be read, and returns the refusal.
    pub(crate) fn refuse_bytes(&mut self, path: &str) -> Refusal {
        self.call.used_up(&self.call.meters.repo_read.bytes, path);
        spent()
    }

    /// Returns the hits for which enough bytes are left. A hit that is left out is a denial.
    fn pay_for(&mut self, found: act_workspace::Hits) -> Result<Hits, Refusal> {
        let act_workspace::Hits { mut items, mut next, mut truncated } = found;
        let left = &self.call.meters.repo_read.bytes;
        let cost = |hit: &act_workspace::Hit| hit.text.len() as u64 + HIT_BYTES;
        let given = items.iter().take_while(|hit| left.take(cost(hit))).count();
        if let Some(hit) = items.get(given) {
            let refusal = self.refuse_bytes(&hit.path);
            items.truncate(given);
            (next, truncated) = (None, true);
            if given == 0 {
                return Err(refusal);
            }
        }
        Ok(Hits { items: items.into_iter().map(hit).collect(), next, truncated })
    }

    /// The refusal for a file that cannot be read.
    pub(crate) fn refuse_read(&mut self, asked: &str, error: ReadError) -> Refusal {
        match error {
            ReadError::View(error) => self.refuse_view(Some(asked), &error),
            ReadError::Binary { path } => {
                self.call.deny(Capability::RepoRead, &path);
                Refusal::NotFound
            }
            ReadError::NotAFile { .. } => Refusal::Invalid(refusal_text("not_a_file", error)),
            ReadError::TooLarge { .. } => Refusal::Limit(refusal_text("too_large", error)),
            ReadError::Failed { .. } => Refusal::Failed(error.to_string()),
        }
    }
}

impl Host for State {
    fn list_entries(
        &mut self,
        want: Selection,
        cursor: Option<String>,
    ) -> wasmtime::Result<Result<Entries, Refusal>> {
        let listed = self.listed("list-entries", want, cursor.as_deref())?;
        Ok(listed.map(|Counted { mut entries, not_utf8 }| {
            entries.truncated |= not_utf8 > 0;
            entries
        }))
    }

    fn list_counted(
        &mut self,
        want: Selection,
        cursor: Option<String>,
    ) -> wasmtime::Result<Result<Counted, Refusal>> {
        self.listed("list-counted", want, cursor.as_deref())
    }

    fn read_many(&mut self, want: Vec<Slice>) -> wasmtime::Result<Vec<Result<Chunk, Refusal>>> {
        self.read_slices(want)
    }

    fn read_text(&mut self, path: String) -> wasmtime::Result<Result<String, Refusal>> {
        let whole = Slice { path: path.clone(), offset: 0, length: None, with_version: false };
        let read = self.read_slices(vec![whole])?.pop().unwrap_or(Err(Refusal::NotFound));
        Ok(read.and_then(|Chunk { bytes, size, .. }| {
            if (bytes.len() as u64) < size {
                let why = format!("{path} has {size} bytes; read it in parts");
                return Err(Refusal::Limit(refusal_text("too_large", why)));
            }
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }))
    }

    fn search(
        &mut self,
        want: Pattern,
        within: Selection,
        cursor: Option<String>,
    ) -> wasmtime::Result<Result<Hits, Refusal>> {
        let under = within.under.clone();
        let object = under.first().map_or("search", String::as_str);
        let (view, most) = match self.reading(object) {
            Ok(reading) => (reading.view.clone(), reading.caps.file_bytes),
            Err(refusal) => return Ok(Err(refusal)),
        };
        // An answer without hits is information too, so it costs as much as a hit.
        if !self.call.meters.repo_read.bytes.take(HIT_BYTES) {
            return Ok(Err(self.refuse_bytes("search")));
        }
        let pattern = act_workspace::Pattern {
            regex: want.regex,
            ignore_case: want.ignore_case,
            multi_line: want.multi_line,
            file_bytes: Some(most),
        };
        let found = act_workspace::search(&view, &pattern, &selection(within), cursor.as_deref());
        self.call.go_on()?;
        Ok(match found {
            Ok(hits) => self.pay_for(hits),
            Err(SearchError::Selection(error)) => Err(self.refuse_selection(&under, &error)),
            Err(error @ SearchError::Pattern(_)) => {
                Err(Refusal::Invalid(refusal_text("bad_arguments", error)))
            }
        })
    }
}

fn spent() -> Refusal {
    Refusal::Limit(refusal_text("repo.read.bytes", "the limit for reading is reached"))
}

fn selection(want: Selection) -> act_workspace::Selection {
    let kind = |kind: read::Kind| match kind {
        read::Kind::File => Kind::File,
        read::Kind::Directory => Kind::Directory,
        read::Kind::Link => Kind::Link,
    };
    act_workspace::Selection {
        under: want.under,
        globs: want.globs,
        kinds: want.kinds.into_iter().map(kind).collect(),
    }
}

fn entry(entry: act_workspace::Entry) -> Entry {
    let kind = match entry.kind {
        Kind::File => read::Kind::File,
        Kind::Directory => read::Kind::Directory,
        Kind::Link => read::Kind::Link,
    };
    Entry { path: entry.path, kind, size: entry.size }
}

fn hit(hit: act_workspace::Hit) -> Hit {
    Hit { path: hit.path, line: hit.line, column: hit.column, text: hit.text }
}

pub(crate) fn version(version: Version) -> types::Version {
    types::Version { number: version.number, digest: version.digest }
}
