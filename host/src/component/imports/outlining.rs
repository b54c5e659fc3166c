//! The work behind `repo.symbols`: files are read, and parsed where nothing is kept of them, side by side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use crate::component::state::ReadLeft;
use crate::symbols::{self, Index, Key, Language, MAX_SOURCE, Outline};
use crate::workspace::{self, ReadError, RepoView, Slice};

/// Files that are worked on at a time in one call.
const AT_ONCE: usize = 4;
/// As many, where there are so many processors. Asked once: the answer stands in a dozen files of the system's.
static THREADS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from).min(AT_ONCE));

/// What is said of a file, and its size.
pub(super) struct Outlined<T> {
    pub(super) said: T,
    pub(super) size: u64,
}

/// What somebody wants to know of each file.
pub(super) struct Ask<K, M> {
    /// What is kept, in the order of the keys.
    pub(super) kept: K,
    /// From an outline that was made just now.
    pub(super) made: M,
}

/// Why a file has no outline.
pub(super) enum Unread {
    NoGrammar,
    TooLarge,
    Spent,
    Stopped,
    Read(ReadError),
}

/// What the threads of one call share.
pub(super) struct Work<'q> {
    pub(super) view: RepoView,
    pub(super) left: Arc<ReadLeft>,
    /// Bytes that may be read of one file.
    pub(super) most: u64,
    pub(super) index: Option<Arc<Index>>,
    pub(super) stopped: &'q (dyn Fn() -> bool + Sync),
}

/// A file that was read.
struct Source {
    language: Language,
    bytes: Vec<u8>,
    key: Key,
}

impl Work<'_> {
    /// One answer for each, in their order.
    pub(super) fn each<T>(
        &self,
        paths: &[String],
        ask: &Ask<impl Fn(&Index, &[Key]) -> Vec<Option<T>>, impl Fn(Outline) -> T>,
    ) -> Vec<Result<Outlined<T>, Unread>> {
        let sources = side_by_side(paths, |path| self.read(path));
        let keys: Vec<_> =
            sources.iter().filter_map(|source| Some(source.as_ref().ok()?.key)).collect();
        let kept = self.index.as_ref().map(|index| (ask.kept)(index, &keys)).unwrap_or_default();
        let mut kept = kept.into_iter().chain(std::iter::repeat_with(|| None));
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
            match kept.next().flatten() {
                Some(said) => answers.push(Ok(Outlined { said, size })),
                None => {
                    places.push((answers.len(), source.key, size));
                    jobs.push((path, source));
                    answers.push(Err(Unread::Stopped));
                }
            }
        }
        let parsed = side_by_side(&jobs, |(path, source)| {
            symbols::outline(source.language, path, &source.bytes, self.stopped)
        });
        let mut fresh = vec![];
        for ((at, key, size), parsed) in places.into_iter().zip(parsed) {
            let Some(parsed) = parsed else { continue };
            if parsed.lasting {
                fresh.push((key, parsed.outline.clone()));
            }
            if let Some(answer) = answers.get_mut(at) {
                *answer = Ok(Outlined { said: (ask.made)(parsed.outline), size });
            }
        }
        if let Some(index) = &self.index {
            index.keep(&fresh.iter().map(|(key, outline)| (*key, outline)).collect::<Vec<_>>());
        }
        answers
    }

    fn read(&self, path: &str) -> Result<Source, Unread> {
        if (self.stopped)() {
            return Err(Unread::Stopped);
        }
        if Language::of(path, &[]).is_none() {
            // A name that is hidden or not there must not look different for having no parser.
            workspace::read(&self.view, &slice(path, 0), None).map_err(Unread::Read)?;
            return Err(Unread::NoGrammar);
        }
        if self.left.bytes() == 0 {
            return Err(Unread::Spent);
        }
        let whole = slice(path, (MAX_SOURCE as u64).min(self.most).saturating_add(1));
        let chunk = workspace::read(&self.view, &whole, None).map_err(Unread::Read)?;
        let size = chunk.bytes.len() as u64;
        // What is not read whole is not outlined, so nothing of it is given.
        if size > self.most || !self.left.take(size) {
            return Err(Unread::Spent);
        }
        if chunk.bytes.len() > MAX_SOURCE {
            return Err(Unread::TooLarge);
        }
        // Of what the path led to: a link may have any name.
        let language = Language::of(&chunk.path, &chunk.bytes).ok_or(Unread::NoGrammar)?;
        let key = symbols::Key::of(language, &chunk.path, &chunk.bytes);
        Ok(Source { language, bytes: chunk.bytes, key })
    }
}

fn slice(path: &str, length: u64) -> Slice {
    Slice { path: path.to_owned(), length: Some(length), ..Slice::default() }
}

/// Every item through `work`, a few at a time; the answers stand in the order of the items.
fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
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
        // Whoever asked would only wait.
        share();
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, answer)| answer).collect()
}
