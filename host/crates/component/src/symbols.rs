//! `repo.symbols`: outlines of files. They are read through the same view as `repo.read` and count against the same bytes.
//!
//! Several threads read the files, and parse those of which the index holds no outline. Answers, denials and records have
//! the order of the call all the same.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use crate::bindings::refusal_text;
use crate::bindings::symbols::{self as wit, Host};
use crate::bindings::types::Refusal;
use crate::call::State;
use crate::capability::{Capability, Meters};
use crate::failure::Ended;
use act_symbols::{Brief, Index, Key, Language, MAX_SOURCE, NameFilter, Outline, Summary};
use act_workspace::{ReadError, RepoView, Slice};

/// Number of files that are looked up in the index at a time.
const BATCH: usize = 64;
/// Bytes that an entry adds to an answer beside its texts.
const ENTRY: usize = 48;
/// Maximum number of files that one call works on at a time.
const AT_ONCE: usize = 4;
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
        let stored = |index: &Index, keys: &[Key]| index.get(keys);
        self.outlined(&paths, &Query { stored, make: |outline| outline })
    }

    fn summaries(
        &mut self,
        paths: Vec<String>,
        names: Vec<String>,
    ) -> wasmtime::Result<Vec<Result<wit::Summary, Refusal>>> {
        let wanted = match NameFilter::new(&names) {
            Ok(wanted) => wanted,
            Err(error) => {
                let refusal = || Refusal::Invalid(refusal_text("bad_arguments", error));
                return Ok(paths.iter().map(|_| Err(refusal())).collect());
            }
        };
        let stored = |index: &Index, keys: &[Key]| index.summaries(keys, &wanted);
        self.outlined(&paths, &Query { stored, make: |outline| Summary::of(outline, &wanted) })
    }
}

/// The answer for one file.
trait Answer {
    /// The record of the WIT interface.
    type Wit;
    /// Bytes that the record adds to the answer of the call.
    fn cost(&self) -> usize;
    fn into_wit(self, size: u64) -> Self::Wit;
}

impl State {
    fn outlined<T: Answer>(
        &mut self,
        paths: &[String],
        query: &Query<impl Fn(&Index, &[Key]) -> Vec<Option<T>>, impl Fn(Outline) -> T>,
    ) -> wasmtime::Result<Vec<Result<T::Wit, Refusal>>> {
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
            let outlined = if room > 0 { work.outline_all(batch, query) } else { vec![] };
            // A stopped call gets no answer at all, not even for the files that were outlined.
            self.call.go_on()?;
            let outlined = outlined.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
            for (path, outlined) in batch.iter().zip(outlined) {
                answers.push(self.answer(path, outlined, &mut room)?);
            }
        }
        Ok(answers)
    }

    fn answer<T: Answer>(
        &mut self,
        path: &str,
        outlined: Option<Result<Outlined<T>, Unread>>,
        room: &mut usize,
    ) -> Result<Result<T::Wit, Refusal>, Ended> {
        Ok(match outlined {
            Some(Ok(Outlined { answer, size })) => match room.checked_sub(answer.cost()) {
                Some(left) => {
                    *room = left;
                    Ok(answer.into_wit(size))
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
    type Wit = wit::Outline;

    fn cost(&self) -> usize {
        cost(&self.symbols, &self.imports)
    }

    fn into_wit(self, size: u64) -> wit::Outline {
        let Outline { language, lines, symbols, imports, complete } = self;
        wit::Outline {
            language: language.word().to_owned(),
            lines,
            size,
            symbols: symbols.into_iter().map(symbol).collect(),
            imports: imports.into_iter().map(edge).collect(),
            complete,
        }
    }
}

impl Answer for Summary {
    type Wit = wit::Summary;

    fn cost(&self) -> usize {
        cost(&self.named, &self.brief.imports)
    }

    fn into_wit(self, size: u64) -> wit::Summary {
        let Brief { language, lines, symbols, exported, tests, imports, complete, .. } = self.brief;
        wit::Summary {
            language: language.word().to_owned(),
            lines,
            size,
            symbols,
            exported,
            tests,
            named: self.named.into_iter().map(symbol).collect(),
            imports: imports.into_iter().map(edge).collect(),
            complete,
        }
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
struct Outlined<T> {
    answer: T,
    size: u64,
}

/// How the answers of one function of the interface are made.
struct Query<S, M> {
    /// Reads stored answers from the index, in the order of the keys.
    stored: S,
    /// Makes the answer from a new outline.
    make: M,
}

/// Why a file has no outline.
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

/// A file that was read, whose bytes are not counted yet.
struct ReadFile {
    size: u64,
    source: Result<Source, Unread>,
}

/// A file that can be parsed.
struct Source {
    language: Language,
    bytes: Vec<u8>,
    key: Key,
}

impl Work<'_> {
    /// One answer for each path, in their order.
    fn outline_all<T>(
        &self,
        paths: &[String],
        query: &Query<impl Fn(&Index, &[Key]) -> Vec<Option<T>>, impl Fn(Outline) -> T>,
    ) -> Vec<Result<Outlined<T>, Unread>> {
        let read = in_parallel(paths, |path| self.read(path));
        // Bytes are counted in the order of the call, so that threads do not decide which file is the last to fit.
        let sources: Vec<_> = read.into_iter().map(|file| self.count_bytes(file)).collect();
        let keys: Vec<_> =
            sources.iter().filter_map(|source| Some(source.as_ref().ok()?.key)).collect();
        let stored =
            self.index.as_ref().map(|index| (query.stored)(index, &keys)).unwrap_or_default();
        let mut stored = stored.into_iter().chain(std::iter::repeat_with(|| None));
        let (mut answers, mut jobs, mut places) = (vec![], vec![], vec![]);
        for (path, source) in paths.iter().zip(sources) {
            let source = match source {
                Ok(source) => source,
                Err(unread) => {
                    answers.push(Err(unread));
                    continue;
                }
            };
            let size = source.bytes.len() as u64;
            match stored.next().flatten() {
                Some(answer) => answers.push(Ok(Outlined { answer, size })),
                None => {
                    places.push((answers.len(), source.key, size));
                    jobs.push((path, source));
                    answers.push(Err(Unread::Stopped));
                }
            }
        }
        let parsed = in_parallel(&jobs, |(path, source)| {
            act_symbols::outline(source.language, path, &source.bytes, self.stopped)
        });
        let mut fresh = vec![];
        for ((at, key, size), parsed) in places.into_iter().zip(parsed) {
            let Some(parsed) = parsed else { continue };
            if parsed.lasting {
                fresh.push((key, parsed.outline.clone()));
            }
            if let Some(place) = answers.get_mut(at) {
                *place = Ok(Outlined { answer: (query.make)(parsed.outline), size });
            }
        }
        if let Some(index) = &self.index {
            index.store(&fresh.iter().map(|(key, outline)| (*key, outline)).collect::<Vec<_>>());
        }
        answers
    }

    /// Counts the bytes of a file. A file that was not read whole is not outlined.
    fn count_bytes(&self, file: Result<ReadFile, Unread>) -> Result<Source, Unread> {
        let ReadFile { size, source } = file?;
        if size > self.file_bytes || !self.meters.repo_read.bytes.take(size) {
            return Err(Unread::Spent);
        }
        source
    }

    fn read(&self, path: &str) -> Result<ReadFile, Unread> {
        if (self.stopped)() {
            return Err(Unread::Stopped);
        }
        if Language::of(path, &[]).is_none() {
            // A hidden or missing file must not look different because its language has no parser.
            act_workspace::read(&self.view, &slice(path, 0), None).map_err(Unread::Read)?;
            return Err(Unread::NoGrammar);
        }
        if self.meters.repo_read.bytes.left() == 0 {
            return Err(Unread::Spent);
        }
        let whole = slice(path, (MAX_SOURCE as u64).min(self.file_bytes).saturating_add(1));
        let chunk = act_workspace::read(&self.view, &whole, None).map_err(Unread::Read)?;
        let size = chunk.bytes.len() as u64;
        // A file that exceeds the bytes that are left is dropped at once, because many such files would fill the memory.
        if size > self.meters.repo_read.bytes.left() {
            return Err(Unread::Spent);
        }
        let source = match Language::of(&chunk.path, &chunk.bytes) {
            _ if chunk.bytes.len() > MAX_SOURCE => Err(Unread::TooLarge),
            // The real name decides, because a link may have any name.
            None => Err(Unread::NoGrammar),
            Some(language) => {
                let key = act_symbols::Key::of(language, &chunk.path, &chunk.bytes);
                Ok(Source { language, bytes: chunk.bytes, key })
            }
        };
        Ok(ReadFile { size, source })
    }
}

fn slice(path: &str, length: u64) -> Slice {
    Slice { path: path.to_owned(), length: Some(length), ..Slice::default() }
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
    use crate::{Grant, RepoRead};
    use act_workspace::Profile;

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
            let query =
                Query { stored: |_: &Index, _: &[Key]| vec![], make: |outline: Outline| outline };
            let answers = work.outline_all(&paths, &query);
            let given: Vec<_> =
                (0..40).filter(|n| answers.get(*n).is_some_and(Result::is_ok)).collect();
            let expected: Vec<_> = (0..20).chain([21, 23, 25]).collect();
            assert_eq!(given, expected);
        }
    }
}
