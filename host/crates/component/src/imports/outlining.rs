//! The work behind `repo.symbols`: files are read, and parsed where nothing is kept of them, side by side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use crate::state::ReadLeft;
use act_symbols::{Index, Key, Language, MAX_SOURCE, Outline};
use act_workspace::{ReadError, RepoView, Slice};

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

/// Bytes that were read of a file, and what they are good for.
struct Got {
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
    /// One answer for each, in their order.
    pub(super) fn each<T>(
        &self,
        paths: &[String],
        ask: &Ask<impl Fn(&Index, &[Key]) -> Vec<Option<T>>, impl Fn(Outline) -> T>,
    ) -> Vec<Result<Outlined<T>, Unread>> {
        let read = side_by_side(paths, |path| self.read(path));
        // Paid in the order of the call: which file is the last that there was enough for is no matter of threads.
        let sources: Vec<_> = read.into_iter().map(|got| self.paid(got)).collect();
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
            act_symbols::outline(source.language, path, &source.bytes, self.stopped)
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

    /// What is not read whole is not outlined, so nothing of it is given.
    fn paid(&self, got: Result<Got, Unread>) -> Result<Source, Unread> {
        let Got { size, source } = got?;
        if size > self.most || !self.left.take(size) {
            return Err(Unread::Spent);
        }
        source
    }

    /// A file that nobody has paid for yet.
    fn read(&self, path: &str) -> Result<Got, Unread> {
        if (self.stopped)() {
            return Err(Unread::Stopped);
        }
        if Language::of(path, &[]).is_none() {
            // A name that is hidden or not there must not look different for having no parser.
            act_workspace::read(&self.view, &slice(path, 0), None).map_err(Unread::Read)?;
            return Err(Unread::NoGrammar);
        }
        if self.left.bytes() == 0 {
            return Err(Unread::Spent);
        }
        let whole = slice(path, (MAX_SOURCE as u64).min(self.most).saturating_add(1));
        let chunk = act_workspace::read(&self.view, &whole, None).map_err(Unread::Read)?;
        let size = chunk.bytes.len() as u64;
        // Not held until it can be paid for: there may be many of them.
        if size > self.left.bytes() {
            return Err(Unread::Spent);
        }
        let source = match Language::of(&chunk.path, &chunk.bytes) {
            _ if chunk.bytes.len() > MAX_SOURCE => Err(Unread::TooLarge),
            // Of what the path led to: a link may have any name.
            None => Err(Unread::NoGrammar),
            Some(language) => {
                let key = act_symbols::Key::of(language, &chunk.path, &chunk.bytes);
                Ok(Source { language, bytes: chunk.bytes, key })
            }
        };
        Ok(Got { size, source })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Usage;
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
                left: ReadLeft::new(bytes, &Usage::default()),
                most: u64::MAX,
                index: None,
                stopped: &|| false,
            };
            let ask = Ask { kept: |_: &Index, _: &[Key]| vec![], made: |outline: Outline| outline };
            let answers = work.each(&paths, &ask);
            let given: Vec<_> =
                (0..40).filter(|n| answers.get(*n).is_some_and(Result::is_ok)).collect();
            let expected: Vec<_> = (0..20).chain([21, 23, 25]).collect();
            assert_eq!(given, expected);
        }
    }
}
