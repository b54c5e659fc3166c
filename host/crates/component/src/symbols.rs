//! `repo.symbols`: outlines of files. They are read through the same view as `repo.read` and count against the same bytes.
//!
//! A file that the index knows by its state in the file system is not read, one that it knows by its content is not
//! parsed. Several threads open, read and parse the files. Answers, denials and records have the order of the call all
//! the same, and a file counts as read wherever its answer comes from.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::SystemTime;

use crate::bindings::refusal_text;
use crate::bindings::symbols::{self as wit, Host};
use crate::bindings::types::Refusal;
use crate::bounds::Bound;
use crate::call::State;
use crate::capability::{Capability, Grant, Meters, RepoRead};
use crate::failure::Ended;
use crate::host::ScoutComponent;
use act_symbols::{
    Brief, Index, Key, Language, MAX_SOURCE, NameFilter, NewEntry, Outline, Parsed, Place, Stamp,
    Stored, Summary,
};
use act_workspace::{Kind, MAX_ENTRIES, OpenDirectory, OpenFile, ReadError, RepoView, Selection};

mod table;

/// Number of files that are looked up in the index at a time, as many as a Scout asks for at a time: each batch begins threads
/// and a transaction.
const BATCH: usize = 512;
/// Number of files that are read and parsed at a time. Their bytes are in memory together.
const READ_AT_ONCE: usize = 64;
/// Bytes that an entry adds to an answer beside its texts.
const ENTRY: usize = 48;
/// Maximum number of files that one call works on at a time.
const AT_ONCE: usize = 4;
/// Number of answers that a component may expect: that of its next request, and the two after it.
const EXPECTED: usize = 3;
/// Bytes of the files of an expected answer. Answers wait in memory and are about as large as the names in the files at most.
const EXPECTED_BYTES: u64 = 32 << 20;
/// Number of threads of one call. It is determined once, because the system reads a dozen files to count its processors.
static THREADS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from).min(AT_ONCE));

impl Host for State {
    fn languages(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(Language::words().map(str::to_owned).to_vec())
    }

    fn outlines(
        &mut self,
        paths: Vec<String>,
    ) -> wasmtime::Result<Vec<Result<wit::Outline, Refusal>>> {
        let query = Query { stored: |stored: &Stored<'_>| stored.outline(), make: Outline::clone };
        let answers = self.answers(&paths, &query, None)?.into_iter();
        Ok(answers.map(|answer| answer.map(outline)).collect())
    }

    fn summaries(
        &mut self,
        paths: Vec<String>,
        names: Vec<String>,
    ) -> wasmtime::Result<Vec<Result<wit::Summary, Refusal>>> {
        let answers = self.all_summaries(&paths, &names, None, None)?.into_iter();
        Ok(answers.map(|answer| answer.map(wit_summary)).collect())
    }

    fn summaries_as_table(
        &mut self,
        paths: Vec<String>,
        names: Vec<String>,
    ) -> wasmtime::Result<wit::SummaryTable> {
        let (wanted, found) = match self.expected(&paths, &names) {
            Some((wanted, Prepared::Table(table))) => match self.whole(&paths, table)? {
                Some(table) => return Ok(table),
                None => (Some(wanted), None),
            },
            Some((wanted, Prepared::Files(found))) => (Some(wanted), Some(found)),
            None => (None, None),
        };
        Ok(table::of(self.all_summaries(&paths, &names, wanted, found)?))
    }

    fn expect_summaries(&mut self, paths: Vec<String>, names: Vec<String>) -> wasmtime::Result<()> {
        let (Some(reading), Some(index)) = (&self.call.read, &self.call.outlines) else {
            return Ok(());
        };
        if paths.len() > BATCH || *THREADS < 2 {
            return Ok(());
        }
        let of_last = self.call.expected.back().filter(|last| last.names == names);
        let wanted = match of_last.map(|last| Arc::clone(&last.wanted)) {
            Some(wanted) => wanted,
            None => match NameFilter::new(&names) {
                Ok(wanted) => Arc::new(wanted),
                // The request says what is wrong with the names.
                Err(_) => return Ok(()),
            },
        };
        if self.call.expected.len() == EXPECTED
            && let Some(dropped) = self.call.expected.pop_front()
        {
            // The thread of the oldest answer ends first, so that a component has three of them at most.
            let _ = dropped.found.join();
        }
        let (view, index, paths) = (reading.view.clone(), Arc::clone(index), Arc::new(paths));
        let (of_thread, filter) = (Arc::clone(&paths), Arc::clone(&wanted));
        let find = move || Prepared::of(&view, &index, &of_thread, &filter);
        let thread = std::thread::Builder::new().name("expected files".to_owned()).spawn(find);
        if let Ok(found) = thread {
            self.call.expected.push_back(Expected { paths, names, wanted, found });
        }
        Ok(())
    }
}

/// Files that a component is going to ask for, and the thread that looks for them in the index.
pub(crate) struct Expected {
    paths: Arc<Vec<String>>,
    names: Vec<String>,
    wanted: Arc<NameFilter>,
    found: JoinHandle<Option<Prepared>>,
}

/// The result of such a thread.
enum Prepared {
    /// The answer, because the index knows all files by their state.
    Table(WholeTable),
    Files(Found<Summary>),
}

/// An answer of which nothing was counted and recorded yet.
struct WholeTable {
    table: wit::SummaryTable,
    /// Bytes of the answer.
    cost: usize,
    sizes: Vec<u64>,
}

impl Prepared {
    /// Returns `None` for files that are too large to be prepared.
    fn of(view: &RepoView, index: &Index, paths: &[String], wanted: &NameFilter) -> Option<Self> {
        let closed = closed_files(view, paths);
        if closed.iter().flatten().map(|closed| closed.size).sum::<u64>() > EXPECTED_BYTES {
            return None;
        }
        let found = find(index, closed, |stored| summary(stored, wanted));
        let whole = found.known.iter().all(Option::is_some);
        if !whole || found.closed.iter().any(Option::is_none) {
            return Some(Self::Files(found));
        }
        let sizes: Vec<_> = found.closed.into_iter().flatten().map(|closed| closed.size).collect();
        let summaries: Vec<_> = found.known.into_iter().flatten().collect();
        let cost = summaries.iter().map(Answer::cost).sum();
        let answers = summaries.into_iter().zip(&sizes);
        let answers = answers.map(|(answer, size)| Ok(SizedAnswer { answer, size: *size }));
        Some(Self::Table(WholeTable { table: table::of(answers.collect()), cost, sizes }))
    }
}

impl State {
    /// Returns what was found for files that were expected.
    fn expected(
        &mut self,
        paths: &[String],
        names: &[String],
    ) -> Option<(Arc<NameFilter>, Prepared)> {
        let is = |one: &Expected| one.names == names && *one.paths == paths;
        let at = self.call.expected.iter().position(is)?;
        let Expected { wanted, found, .. } = self.call.expected.remove(at)?;
        Some((wanted, found.join().ok()??))
    }

    /// Counts and records the files of a whole answer. Returns `None`, and counts nothing, if a limit does not leave all of it.
    fn whole(
        &mut self,
        paths: &[String],
        WholeTable { table, cost, sizes }: WholeTable,
    ) -> wasmtime::Result<Option<wit::SummaryTable>> {
        self.call.go_on()?;
        let Some(reading) = &self.call.read else { return Ok(None) };
        let room = usize::try_from(self.call.grant.limits.host_call_bytes).unwrap_or(usize::MAX);
        let fits = cost <= room && sizes.iter().all(|size| *size <= reading.caps.file_bytes);
        if !fits || !self.call.meters.repo_read.bytes.take(sizes.iter().sum()) {
            return Ok(None);
        }
        paths.iter().for_each(|path| reading.view.record_read(path));
        Ok(Some(table))
    }

    /// `wanted` and `found` are what is known of the request already.
    fn all_summaries(
        &mut self,
        paths: &[String],
        names: &[String],
        wanted: Option<Arc<NameFilter>>,
        found: Option<Found<Summary>>,
    ) -> wasmtime::Result<Vec<Result<SizedAnswer<Summary>, Refusal>>> {
        let wanted = match wanted.map_or_else(|| NameFilter::new(names).map(Arc::new), Ok) {
            Ok(wanted) => wanted,
            Err(error) => {
                let refusal = || Refusal::Invalid(refusal_text("bad_arguments", error));
                return Ok(paths.iter().map(|_| Err(refusal())).collect());
            }
        };
        let make = |outline: &Outline| Summary::of(outline.clone(), &wanted);
        let stored = |stored: &Stored<'_>| summary(stored, &wanted);
        self.answers(paths, &Query { stored, make }, found)
    }
}

/// Returns the summary of a stored file. An outline that cannot hold a wanted name is not decoded.
fn summary(stored: &Stored<'_>, wanted: &NameFilter) -> Option<Summary> {
    let brief = stored.brief()?;
    let named = match wanted.is_in(&brief) {
        true => wanted.among(stored.outline()?.symbols),
        false => vec![],
    };
    Some(Summary { brief, named })
}

/// The answer for one file.
trait Answer: Send {
    /// Bytes that the record adds to the answer of the call.
    fn cost(&self) -> usize;
}

impl State {
    fn answers<T: Answer>(
        &mut self,
        paths: &[String],
        query: &Query<impl Fn(&Stored<'_>) -> Option<T> + Sync, impl Fn(&Outline) -> T>,
        mut found: Option<Found<T>>,
    ) -> wasmtime::Result<Vec<Result<SizedAnswer<T>, Refusal>>> {
        let Some(reading) = &self.call.read else {
            let refusal = self.call.refuse(Capability::RepoRead, "repo.symbols");
            return Ok(paths.iter().map(|_| Err(refusal.clone())).collect());
        };
        let stop = self.call.stop.clone();
        let work = Work {
            view: reading.view.clone(),
            meters: Arc::clone(&self.call.meters),
            file_bytes: reading.caps.file_bytes,
            index: self.call.outlines.clone(),
            stopped: &|| stop.is_cancelled(),
        };
        let mut room =
            usize::try_from(self.call.grant.limits.host_call_bytes).unwrap_or(usize::MAX);
        let mut answers = Vec::with_capacity(paths.len());
        for batch in paths.chunks(BATCH) {
            let found = found.take();
            let answered = if room > 0 { work.answer_all(batch, query, found) } else { vec![] };
            // A stopped call gets no answer at all, not even for the files that were looked at.
            self.call.go_on()?;
            let answered = answered.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
            for (path, answered) in batch.iter().zip(answered) {
                answers.push(self.answer(path, answered, &mut room)?);
            }
        }
        Ok(answers)
    }

    fn answer<T: Answer>(
        &mut self,
        path: &str,
        answered: Option<Result<SizedAnswer<T>, Unread>>,
        room: &mut usize,
    ) -> Result<Result<SizedAnswer<T>, Refusal>, Ended> {
        Ok(match answered {
            Some(Ok(answered)) => match room.checked_sub(answered.answer.cost()) {
                Some(left) => {
                    *room = left;
                    Ok(answered)
                }
                None => {
                    *room = 0;
                    Err(no_room())
                }
            },
            None => Err(no_room()),
            Some(Err(Unread::Spent)) => Err(self.refuse_bytes(path)),
            Some(Err(Unread::NoGrammar)) => Err(Refusal::Invalid(refusal_text(
                "no_grammar",
                "this language cannot be parsed here",
            ))),
            Some(Err(Unread::TooLarge)) => {
                let why = format!("more than {MAX_SOURCE} bytes to parse");
                Err(Refusal::Limit(refusal_text("too_large", why)))
            }
            Some(Err(Unread::Read(error))) => Err(self.refuse_read(path, error)),
            Some(Err(Unread::Stopped)) => return Err(Ended::Stopped),
        })
    }
}

fn no_room() -> Refusal {
    Refusal::Limit(refusal_text("call_bytes", "too much for one answer; ask for these again"))
}

impl Answer for Outline {
    fn cost(&self) -> usize {
        cost(&self.symbols, &self.imports)
    }
}

impl Answer for Summary {
    fn cost(&self) -> usize {
        cost(&self.named, &self.brief.imports) + self.brief.package_names.len()
    }
}

fn outline(SizedAnswer { answer, size }: SizedAnswer<Outline>) -> wit::Outline {
    let Outline { language, lines, symbols, imports, complete } = answer;
    wit::Outline {
        language: language.word().to_owned(),
        lines,
        size,
        symbols: symbols.into_iter().map(symbol).collect(),
        imports: imports.into_iter().map(edge).collect(),
        complete,
    }
}

fn wit_summary(SizedAnswer { answer, size }: SizedAnswer<Summary>) -> wit::Summary {
    let Summary { brief, named } = answer;
    let Brief { language, lines, symbols, exported, tests, imports, complete, .. } = brief;
    wit::Summary {
        language: language.word().to_owned(),
        lines,
        size,
        symbols,
        exported,
        tests,
        named: named.into_iter().map(symbol).collect(),
        imports: imports.into_iter().map(edge).collect(),
        complete,
    }
}

fn cost(symbols: &[act_symbols::Symbol], imports: &[act_symbols::Import]) -> usize {
    let symbols = symbols.iter();
    let symbols =
        symbols.map(|s| s.name.len() + s.container.as_ref().map_or(0, String::len) + ENTRY);
    let names = |names: &[String]| names.iter().map(|name| name.len() + 8).sum::<usize>();
    let imports = imports.iter();
    let imports = imports.map(|import| import.target.len() + names(&import.names) + ENTRY);
    symbols.chain(imports).sum::<usize>() + ENTRY
}

fn symbol(symbol: act_symbols::Symbol) -> wit::Symbol {
    wit::Symbol {
        name: symbol.name,
        kind: symbol.kind.word().to_owned(),
        container: symbol.container,
        first_line: symbol.first_line,
        last_line: symbol.last_line,
        exported: symbol.exported,
    }
}

fn edge(import: act_symbols::Import) -> wit::Edge {
    wit::Edge { line: import.line, target: import.target, names: import.names }
}

/// The answer for a file, and the file's size.
struct SizedAnswer<T> {
    answer: T,
    size: u64,
}

/// How the answers of one function of the interface are made.
struct Query<S, M> {
    /// Makes the answer from a stored file.
    stored: S,
    /// Makes the answer from a file that was looked at.
    make: M,
}

/// Why a file has no answer.
enum Unread {
    NoGrammar,
    TooLarge,
    Spent,
    Stopped,
    Read(ReadError),
}

/// The state that the threads of one call share.
struct Work<'q> {
    view: RepoView,
    meters: Arc<Meters>,
    /// Maximum number of bytes that may be read of one file.
    file_bytes: u64,
    index: Option<Arc<Index>>,
    stopped: &'q (dyn Fn() -> bool + Sync),
}

/// A file that can be parsed. It is opened only where the index does not know its state.
enum Seen<'v> {
    Closed(Closed),
    Open(Box<Opened<'v>>),
}

/// The state of a file that was not opened.
#[derive(Clone, Copy)]
struct Closed {
    place: Place,
    size: u64,
}

/// An open file that can be parsed.
struct Opened<'v> {
    file: OpenFile<'v>,
    /// The state of the file; `None` in an overlay.
    place: Option<Place>,
    /// The time before the state was taken.
    opened_at: SystemTime,
}

/// A file that was read, whose bytes are not counted yet.
struct ReadFile {
    size: u64,
    source: Result<Source, Unread>,
}

/// The content of a file that can be parsed.
struct Source {
    language: Language,
    bytes: Vec<u8>,
    key: Key,
    place: Option<Place>,
    opened_at: SystemTime,
}

impl Work<'_> {
    /// One answer for each path, in their order. `found` is what was found for these paths already.
    fn answer_all<T: Send>(
        &self,
        paths: &[String],
        query: &Query<impl Fn(&Stored<'_>) -> Option<T> + Sync, impl Fn(&Outline) -> T>,
        found: Option<Found<T>>,
    ) -> Vec<Result<SizedAnswer<T>, Unread>> {
        let search =
            || Some(find(self.index.as_ref()?, closed_files(&self.view, paths), &query.stored));
        let Found { mut closed, mut known } = found.or_else(search).unwrap_or_default();
        closed.resize_with(paths.len(), || None);
        known.resize_with(paths.len(), || None);
        let to_open = paths.iter().zip(&closed).filter(|(_, closed)| closed.is_none());
        let to_open: Vec<_> = to_open.map(|(path, _)| path).collect();
        let mut opened = in_parallel(&to_open, |path| self.open(path)).into_iter();
        let seen: Vec<_> = closed
            .into_iter()
            .map(|closed| match closed {
                Some(_) if self.meters.repo_read.bytes.left() == 0 => Err(Unread::Spent),
                Some(closed) => Ok(Seen::Closed(closed)),
                None => match opened.next() {
                    Some(opened) => opened.map(|opened| Seen::Open(Box::new(opened))),
                    None => Err(Unread::Stopped),
                },
            })
            .collect();
        if let Some(index) = self.index.as_ref().filter(|_| !to_open.is_empty()) {
            let places = seen.iter().map(|file| match file {
                Ok(Seen::Open(opened)) => opened.place,
                _ => None,
            });
            let more = index.by_place(&places.collect::<Vec<_>>(), &query.stored);
            for (known, more) in known.iter_mut().zip(more) {
                *known = known.take().or(more);
            }
        }
        let (mut seen, mut known) = (seen.into_iter(), known.into_iter());
        let mut answers = Vec::with_capacity(paths.len());
        for part in paths.chunks(READ_AT_ONCE) {
            let seen: Vec<_> = seen.by_ref().take(part.len()).collect();
            let known: Vec<_> = known.by_ref().take(part.len()).collect();
            answers.extend(self.answer_part(part, seen, known, query));
        }
        answers
    }

    /// Answers for some files: with what is known of them, and for the others with what is read now.
    fn answer_part<T>(
        &self,
        paths: &[String],
        seen: Vec<Result<Seen<'_>, Unread>>,
        known: Vec<Option<T>>,
        query: &Query<impl Fn(&Stored<'_>) -> Option<T>, impl Fn(&Outline) -> T>,
    ) -> Vec<Result<SizedAnswer<T>, Unread>> {
        let unknown: Vec<_> = paths
            .iter()
            .zip(&seen)
            .zip(&known)
            .filter_map(|((path, file), known)| {
                Some((path, file.as_ref().ok().filter(|_| known.is_none())?))
            })
            .collect();
        let read = in_parallel(&unknown, |(path, file)| match file {
            Seen::Open(opened) => self.read(opened),
            Seen::Closed(_) => self.open(path).and_then(|opened| self.read(&opened)),
        });
        drop(unknown);
        let mut read = read.into_iter();
        // Bytes are counted in the order of the call, so that threads do not decide which file is the last to fit.
        let (mut answers, mut sources) = (vec![], vec![]);
        for ((path, file), known) in paths.iter().zip(seen).zip(known) {
            let answer = match (file, known) {
                (Err(unread), _) => Err(unread),
                (Ok(Seen::Closed(Closed { size, .. })), Some(answer)) => {
                    self.count(size).map(|()| {
                        self.view.record_read(path);
                        SizedAnswer { answer, size }
                    })
                }
                (Ok(Seen::Open(opened)), Some(answer)) => {
                    let size = opened.file.size();
                    self.count(size).map(|()| {
                        opened.file.record_read();
                        SizedAnswer { answer, size }
                    })
                }
                (Ok(_), None) => match read.next() {
                    Some(Ok(ReadFile { size, source })) => {
                        self.count(size).and(source).and_then(|source| {
                            sources.push((answers.len(), source, size));
                            Err(Unread::Stopped)
                        })
                    }
                    Some(Err(unread)) => Err(unread),
                    None => Err(Unread::Stopped),
                },
            };
            answers.push(answer);
        }
        self.look_at(paths, sources, query, &mut answers);
        answers
    }

    /// Answers for files whose state the index does not know, and stores what was found in them.
    fn look_at<T>(
        &self,
        paths: &[String],
        sources: Vec<(usize, Source, u64)>,
        query: &Query<impl Fn(&Stored<'_>) -> Option<T>, impl Fn(&Outline) -> T>,
        answers: &mut [Result<SizedAnswer<T>, Unread>],
    ) {
        if sources.is_empty() {
            return;
        }
        let keys: Vec<_> = sources.iter().map(|(_, source, _)| source.key).collect();
        let known = self
            .index
            .as_ref()
            .map(|index| index.by_content(&keys, |stored: &Stored<'_>| stored.outline()));
        let mut known = known.unwrap_or_default();
        known.resize_with(sources.len(), || None);
        let jobs: Vec<_> = sources.iter().zip(&known).collect();
        let found = in_parallel(&jobs, |((at, source, _), known)| match known {
            Some(outline) => Some(Parsed { outline: outline.clone(), lasting: true }),
            None => {
                act_symbols::outline(source.language, paths.get(*at)?, &source.bytes, self.stopped)
            }
        });
        drop(jobs);
        let mut entries = vec![];
        for ((at, source, size), found) in sources.into_iter().zip(found) {
            let (Some(Parsed { outline, lasting }), Some(place)) = (found, answers.get_mut(at))
            else {
                continue;
            };
            *place = Ok(SizedAnswer { answer: (query.make)(&outline), size });
            if lasting {
                let Source { key, place, opened_at, .. } = source;
                entries.push(NewEntry { place, read_at: opened_at, key, outline });
            }
        }
        if let Some(index) = &self.index {
            index.store(entries);
        }
    }

    /// Counts the bytes of a file.
    fn count(&self, size: u64) -> Result<(), Unread> {
        let fits = size <= self.file_bytes && self.meters.repo_read.bytes.take(size);
        fits.then_some(()).ok_or(Unread::Spent)
    }

    fn open(&self, path: &str) -> Result<Opened<'_>, Unread> {
        if (self.stopped)() {
            return Err(Unread::Stopped);
        }
        let opened_at = SystemTime::now();
        let file = OpenFile::open(&self.view, path).map_err(Unread::Read)?;
        // The real name decides as well, because a link may have any name.
        if Language::of(path, &[]).or_else(|| Language::of(file.path(), &[])).is_none() {
            // A hidden file must not look different because its language has no parser.
            file.read(0, 0).map_err(Unread::Read)?;
            return Err(Unread::NoGrammar);
        }
        if self.meters.repo_read.bytes.left() == 0 {
            return Err(Unread::Spent);
        }
        let place = file.stat().map(|stat| Place::new(Stamp::of(stat), file.path()));
        Ok(Opened { file, place, opened_at })
    }

    fn read(&self, Opened { file, place, opened_at }: &Opened<'_>) -> Result<ReadFile, Unread> {
        if (self.stopped)() {
            return Err(Unread::Stopped);
        }
        let most = (MAX_SOURCE as u64).min(self.file_bytes).saturating_add(1);
        let bytes = file.read(0, most).map_err(Unread::Read)?;
        let size = bytes.len() as u64;
        // A file that exceeds the bytes that are left is dropped at once, because many such files would fill the memory.
        if size > self.meters.repo_read.bytes.left() {
            return Err(Unread::Spent);
        }
        let source = match Language::of(file.path(), &bytes) {
            _ if bytes.len() > MAX_SOURCE => Err(Unread::TooLarge),
            None => Err(Unread::NoGrammar),
            Some(language) => {
                let key = Key::of(language, file.path(), &bytes);
                Ok(Source { language, bytes, key, place: *place, opened_at: *opened_at })
            }
        };
        Ok(ReadFile { size, source })
    }
}

/// Files that were looked for without opening any of them.
struct Found<T> {
    /// `None` for a file that has to be opened.
    closed: Vec<Option<Closed>>,
    /// The answers of the index for the files that it knows by their state.
    known: Vec<Option<T>>,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self { closed: vec![], known: vec![] }
    }
}

/// Looks for files in the index. The caller counts and records them when their answers are given.
fn find<T: Send>(
    index: &Index,
    closed: Vec<Option<Closed>>,
    stored: impl Fn(&Stored<'_>) -> Option<T> + Sync,
) -> Found<T> {
    let places: Vec<_> = closed.iter().map(|closed| closed.map(|closed| closed.place)).collect();
    Found { known: index.by_place(&places, stored), closed }
}

/// Looks at files without opening them, where that is enough.
fn closed_files(view: &RepoView, paths: &[String]) -> Vec<Option<Closed>> {
    // Files of one directory follow each other, and it is opened once for all of them.
    let runs: Vec<_> = paths.chunk_by(|a, b| directory(a) == directory(b)).collect();
    in_parallel(&runs, |run| closed_in_one(view, run)).into_iter().flatten().collect()
}

/// Looks at files of one directory.
fn closed_in_one(view: &RepoView, paths: &[String]) -> Vec<Option<Closed>> {
    let around = paths.first().and_then(|path| OpenDirectory::around(view, path));
    let closed = |path: &String| {
        let directory = around.as_ref().filter(|_| Language::of(path, &[]).is_some())?;
        let stat = directory.stat(path)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        Some(Closed { place: Place::new(Stamp::of(&stat), path), size })
    };
    paths.iter().map(closed).collect()
}

/// Nice value of the threads that index in the background: they use what steps and Scouts leave.
const NICE: i32 = 19;

/// Indexes the files of a view in the background, so that a later question finds them known. It ends when all files were
/// looked at, and at the next file when this value is dropped.
#[derive(Debug)]
pub struct BackgroundIndexing(Arc<AtomicBool>);

impl Drop for BackgroundIndexing {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl ScoutComponent {
    /// Begins to index the files in `view` that the Scout had no time for. Nothing is given to the component. Returns
    /// `None` without an index, and while another value does the same in this process.
    pub fn index_in_background(&self, view: &RepoView) -> Option<BackgroundIndexing> {
        index_in_background(self.outlines.clone()?, view)
    }
}

fn index_in_background(index: Arc<Index>, view: &RepoView) -> Option<BackgroundIndexing> {
    if !index.begin_background() {
        return None;
    }
    let stopped = Arc::new(AtomicBool::new(false));
    let (stop, ending) = (Arc::clone(&stopped), Arc::clone(&index));
    let view = view.until(move || stop.load(Ordering::Relaxed));
    let stop = Arc::clone(&stopped);
    let work = move || {
        // Without the lower priority the work is the same.
        let _ = rustix::process::setpriority_process(None, NICE);
        index_files(&index, &view, &|| stop.load(Ordering::Relaxed));
        index.end_background();
    };
    match std::thread::Builder::new().name("indexing".to_owned()).spawn(work) {
        Ok(_) => Some(BackgroundIndexing(stopped)),
        Err(_) => {
            ending.end_background();
            None
        }
    }
}

/// Stores the outlines of all files in view that the index does not know. Ends early when the view cannot be listed.
fn index_files(index: &Arc<Index>, view: &RepoView, stopped: &(dyn Fn() -> bool + Sync)) {
    let everything = Grant { repo_read: Some(RepoRead::unlimited()), ..Grant::default() };
    let work = Work {
        view: view.clone(),
        meters: Arc::new(Meters::new(&everything)),
        file_bytes: u64::MAX,
        index: Some(Arc::clone(index)),
        stopped,
    };
    let query = Query { stored: |_: &Stored<'_>| Some(()), make: |_: &Outline| () };
    let want = Selection { kinds: vec![Kind::File], ..Selection::default() };
    let mut cursor = None;
    while let Ok(page) = act_workspace::list(view, &want, cursor.as_deref(), MAX_ENTRIES) {
        let paths = page.items.into_iter().map(|entry| entry.path);
        let paths: Vec<_> = paths.filter(|path| Language::of(path, &[]).is_some()).collect();
        for batch in paths.chunks(BATCH) {
            if stopped() {
                return;
            }
            work.answer_all(batch, &query, None);
        }
        cursor = page.next;
        if cursor.is_none() {
            return;
        }
    }
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Applies `work` to all items in several threads. The results have the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = (*THREADS).min(items.len());
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    let share = || {
        let mut mine = vec![];
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            mine.push((at, work(item)));
        }
        done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(mine);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(share);
        }
        // The calling thread works too instead of waiting.
        share();
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_workspace::Profile;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    // CAPABILITY-11
    #[test]
    fn what_there_are_bytes_for_is_decided_in_the_order_of_the_call() {
        let root = tempfile::tempdir().unwrap();
        let text = "def f():\n    pass\n";
        let paths: Vec<_> = (0..40).map(|n| format!("f{n}.py")).collect();
        for (n, path) in paths.iter().enumerate() {
            // Every other one takes long to read, so that threads would overtake each other.
            let long = text.repeat(if n % 2 == 0 { 2_000 } else { 1 });
            std::fs::write(root.path().join(path), long).unwrap();
        }
        let (long, short) = (2_000 * text.len() as u64, text.len() as u64);
        // Enough for ten of each; then for no long one, and for a short one.
        let bytes = 10 * (long + short) + 3 * short;
        for _ in 0..20 {
            let work = Work {
                view: RepoView::open(root.path(), Profile::Scout).unwrap(),
                meters: Arc::new(Meters::new(&Grant {
                    repo_read: Some(RepoRead { query_bytes: bytes, ..RepoRead::default() }),
                    ..Grant::default()
                })),
                file_bytes: u64::MAX,
                index: None,
                stopped: &|| false,
            };
            let stored = |_: &Stored<'_>| None::<Outline>;
            let query = Query { stored, make: Outline::clone };
            let answers = work.answer_all(&paths, &query, None);
            let given: Vec<_> =
                (0..40).filter(|n| answers.get(*n).is_some_and(Result::is_ok)).collect();
            let expected: Vec<_> = (0..20).chain([21, 23, 25]).collect();
            assert_eq!(given, expected);
        }
    }

    /// Runs work on the files of a view with an index, without any bounds.
    fn work(view: &RepoView, index: &Arc<Index>) -> Work<'static> {
        Work {
            view: view.clone(),
            meters: Arc::new(Meters::new(&Grant {
                repo_read: Some(RepoRead::unlimited()),
                ..Grant::default()
            })),
            file_bytes: u64::MAX,
            index: Some(Arc::clone(index)),
            stopped: &|| false,
        }
    }

    fn own(dir: &tempfile::TempDir) -> Arc<Index> {
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        Arc::new(Index::new(dir.path()))
    }

    /// Number of files that the index knows by their state.
    fn known(view: &RepoView, index: &Arc<Index>, paths: &[String]) -> usize {
        let work = work(view, index);
        let opened: Vec<_> = paths.iter().map(|path| work.open(path).ok().unwrap().place).collect();
        let found = index.by_place(&opened, |_| Some(()));
        found.iter().flatten().count()
    }

    fn names(answers: Vec<Result<SizedAnswer<Outline>, Unread>>) -> Vec<String> {
        let outlines = answers.into_iter().map(|answer| answer.ok().unwrap().answer);
        outlines.flat_map(|outline| outline.symbols).map(|symbol| symbol.name).collect()
    }

    // SYMBOLS-5
    #[test]
    fn a_file_whose_state_is_known_is_not_read_and_a_changed_one_is() {
        let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (path, index) = (root.path().join("a.py"), own(&dir));
        std::fs::write(&path, "def first():\n    pass\n").unwrap();
        let view = RepoView::open(root.path(), Profile::Scout).unwrap();
        let paths = ["a.py".to_owned()];
        let query = Query { stored: |stored: &Stored<'_>| stored.outline(), make: Outline::clone };
        let ask = || names(work(&view, &index).answer_all(&paths, &query, None));
        assert_eq!(ask(), ["first"]);
        // The file is too young to be known by its state.
        assert_eq!(known(&view, &index, &paths), 0);
        let long_ago = std::fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
        std::fs::File::options().write(true).open(&path).unwrap().set_times(long_ago).unwrap();
        std::thread::sleep(Duration::from_millis(2_100));
        assert_eq!((ask(), known(&view, &index, &paths)), (vec!["first".to_owned()], 1));
        // The index alone answers now: another outline under the same state would be returned.
        let read_at = SystemTime::now();
        let other =
            act_symbols::outline(Language::Python, "a.py", b"def stored(): pass\n", &|| false);
        let place = work(&view, &index).open("a.py").ok().unwrap().place;
        let key = Key::of(Language::Python, "a.py", b"def stored(): pass\n");
        let outline = other.unwrap().outline;
        index.store(vec![NewEntry { place, read_at, key, outline }]);
        assert_eq!(ask(), ["stored"]);
        // The same size and the same time of the last change, as `touch -r` makes it.
        std::fs::write(&path, "def again():\n    pass\n").unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_times(long_ago).unwrap();
        assert_eq!(ask(), ["again"]);
    }

    // SYMBOLS-10
    #[test]
    fn what_was_found_before_gives_the_same_answers_and_counts_nothing() {
        let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |name: &str, text: &str| {
            std::fs::write(root.path().join(name), text).unwrap();
        };
        write("a.py", "def first():\n    pass\n");
        write("b.txt", "no source\n");
        write("c.py", "def third():\n    pass\n");
        write(".env", "KEY=1\n");
        std::os::unix::fs::symlink("a.py", root.path().join("link.py")).unwrap();
        std::thread::sleep(Duration::from_millis(2_100));
        let paths = ["a.py", "b.txt", "missing.py", "link.py", ".env", "c.py"].map(str::to_owned);
        let (view, index) = (RepoView::open(root.path(), Profile::Scout).unwrap(), own(&dir));
        let query = Query { stored: |stored: &Stored<'_>| stored.outline(), make: Outline::clone };
        let left = |work: &Work<'_>| work.meters.repo_read.bytes.left();
        let answers = |found: Option<Found<Outline>>| {
            let work = work(&view, &index);
            let before = left(&work);
            let answers = work.answer_all(&paths, &query, found).into_iter();
            let names = |answer: SizedAnswer<Outline>| {
                answer.answer.symbols.into_iter().map(|one| one.name).collect::<Vec<_>>()
            };
            let answers: Vec<_> = answers.map(|answer| answer.ok().map(names)).collect();
            (answers, before - left(&work))
        };
        let first = answers(None);
        let is = |name: &str| Some(vec![name.to_owned()]);
        assert_eq!(first.0, [is("first"), None, None, is("first"), None, is("third")]);
        let found = find(&index, closed_files(&view, &paths), query.stored);
        let known = found.known.iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(known, [true, false, false, false, false, true], "links are opened");
        assert_eq!(answers(Some(found)), first);
        // The file has changed since: its answer is that of the moment at which it was looked for.
        let found = find(&index, closed_files(&view, &paths), query.stored);
        write("a.py", "def other():\n    pass\n");
        assert_eq!(answers(Some(found)).0[0], is("first"));
        assert_eq!(answers(None).0[0], is("other"));

        // Large files are not prepared, because their answers would wait in memory.
        let wanted = NameFilter::new(&[]).unwrap();
        let prepared = |paths: &[String]| Prepared::of(&view, &index, paths, &wanted).is_some();
        assert!(prepared(&paths));
        let large = std::fs::File::create(root.path().join("large.py")).unwrap();
        large.set_len(EXPECTED_BYTES + 1).unwrap();
        assert!(!prepared(&["large.py".to_owned()]));
    }

    // SYMBOLS-9
    #[test]
    fn files_are_indexed_in_the_background_until_the_task_ends() {
        let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let text = "def f():\n    return [1, 2, 3]\n".repeat(500);
        let paths: Vec<_> = (0..600).map(|n| format!("f{n}.py")).collect();
        for path in &paths {
            std::fs::write(root.path().join(path), &text).unwrap();
        }
        std::thread::sleep(Duration::from_millis(2_100));
        let view = RepoView::open(root.path(), Profile::Scout).unwrap();
        let index = own(&dir);
        let ended = |index: &Arc<Index>| {
            let start = Instant::now();
            while !index.begin_background() {
                assert!(start.elapsed() < Duration::from_secs(300));
                std::thread::sleep(Duration::from_millis(5));
            }
            index.end_background();
        };
        let first = index_in_background(Arc::clone(&index), &view).unwrap();
        assert!(index_in_background(Arc::clone(&index), &view).is_none(), "one is enough");
        drop(first);
        ended(&index);
        assert!(known(&view, &index, &paths) < paths.len());
        let second = index_in_background(Arc::clone(&index), &view).unwrap();
        ended(&index);
        assert_eq!(known(&view, &index, &paths), paths.len());
        drop(second);
    }
}
