//! `repo.symbols`: outlines of files, read through the same view and counted against the same bytes as reading.
//!
//! Files of one call are read and parsed side by side; what is told, denied and answered keeps the order of the call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::denied;
use super::repo_read::spent;
use crate::component::bindings::symbols::{self as wit, Host};
use crate::component::bindings::types::Refusal;
use crate::component::failure::Ended;
use crate::component::state::{ReadLeft, State};
use crate::symbols::{self, Index, Language, MAX_SOURCE, Outline};
use crate::workspace::{self, ReadError, RepoView, Slice};

const GRANT: &str = "repo.read";
/// Files that are worked on at a time in one call.
const AT_ONCE: usize = 4;
/// Files between two looks into the index.
const BATCH: usize = 64;
/// What an entry costs beside its texts, out of the bytes of one answer.
const ENTRY: usize = 48;

impl Host for State {
    fn languages(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(Language::WORDS.map(str::to_owned).to_vec())
    }

    fn outlines(
        &mut self,
        paths: Vec<String>,
    ) -> wasmtime::Result<Vec<Result<wit::Outline, Refusal>>> {
        let Some(reading) = &self.query.read else {
            self.query.denials.deny(GRANT, "repo.symbols");
            return Ok(paths.iter().map(|_| Err(denied(GRANT))).collect());
        };
        let stop = self.query.stop.clone();
        let work = Work {
            view: reading.view.clone(),
            left: Arc::clone(&reading.left),
            most: reading.caps.file_bytes,
            index: self.query.outlines.clone(),
            stopped: &|| stop.is_cancelled(),
        };
        let mut room =
            usize::try_from(self.query.grant.limits.host_call_bytes).unwrap_or(usize::MAX);
        let mut answers = Vec::with_capacity(paths.len());
        for batch in paths.chunks(BATCH) {
            let outlined = if room > 0 { work.outlines(batch) } else { vec![] };
            // Whoever stopped the query is not told of what was half done.
            self.query.go_on()?;
            let outlined = outlined.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
            for (path, outlined) in batch.iter().zip(outlined) {
                answers.push(self.answer(path, outlined, &mut room)?);
            }
        }
        Ok(answers)
    }
}

impl State {
    fn answer(
        &mut self,
        path: &str,
        outlined: Option<Result<Outlined, Unread>>,
        room: &mut usize,
    ) -> Result<Result<wit::Outline, Refusal>, Ended> {
        Ok(match outlined {
            Some(Ok(Outlined { outline, size })) => match room.checked_sub(cost(&outline)) {
                Some(left) => {
                    *room = left;
                    Ok(told(outline, size))
                }
                None => {
                    *room = 0;
                    Err(no_room())
                }
            },
            None => Err(no_room()),
            Some(Err(Unread::Spent)) => {
                self.query.denials.deny("repo.read.bytes", path);
                Err(spent())
            }
            Some(Err(Unread::NoGrammar)) => {
                Err(Refusal::Invalid("no_grammar: this language cannot be parsed here".to_owned()))
            }
            Some(Err(Unread::TooLarge)) => {
                Err(Refusal::Limit(format!("too_large: more than {MAX_SOURCE} bytes to parse")))
            }
            Some(Err(Unread::Read(error))) => Err(self.refuse_read(path, error)),
            Some(Err(Unread::Stopped)) => return Err(Ended::Stopped),
        })
    }
}

fn no_room() -> Refusal {
    Refusal::Limit("call_bytes: too much for one answer; ask for these again".to_owned())
}

struct Outlined {
    outline: Outline,
    size: u64,
}

/// Why a file has no outline.
enum Unread {
    NoGrammar,
    TooLarge,
    Spent,
    Stopped,
    Read(ReadError),
}

/// What the threads of one call share.
struct Work<'q> {
    view: RepoView,
    left: Arc<ReadLeft>,
    /// Bytes that may be read of one file.
    most: u64,
    index: Option<Arc<Index>>,
    stopped: &'q (dyn Fn() -> bool + Sync),
}

/// A file that was read.
struct Source {
    language: Language,
    bytes: Vec<u8>,
    key: symbols::Key,
}

impl Work<'_> {
    fn outlines(&self, paths: &[String]) -> Vec<Result<Outlined, Unread>> {
        let sources = side_by_side(paths, |path| self.read(path));
        let keys: Vec<_> =
            sources.iter().filter_map(|source| Some(source.as_ref().ok()?.key)).collect();
        let kept = self.index.as_ref().map(|index| index.get(&keys)).unwrap_or_default();
        let mut kept = kept.into_iter().chain(std::iter::repeat_with(|| None));
        let jobs: Vec<_> = paths
            .iter()
            .zip(sources)
            .map(|(path, source)| (path, source.map(|source| (source, kept.next().flatten()))))
            .collect();
        let mut fresh = vec![];
        let parsed = side_by_side(&jobs, |(path, job)| match job {
            Ok((_, Some(_))) | Err(_) => None,
            Ok((source, None)) => {
                Some(symbols::outline(source.language, path, &source.bytes, self.stopped))
            }
        });
        let mut outlined = vec![];
        for ((_, job), parsed) in jobs.into_iter().zip(parsed) {
            outlined.push(match (job, parsed) {
                (Err(unread), _) => Err(unread),
                (Ok((source, Some(outline))), _) => {
                    Ok(Outlined { outline, size: source.bytes.len() as u64 })
                }
                (Ok((source, None)), Some(Some(parsed))) => {
                    if parsed.lasting {
                        fresh.push((source.key, parsed.outline.clone()));
                    }
                    Ok(Outlined { outline: parsed.outline, size: source.bytes.len() as u64 })
                }
                (Ok(_), _) => Err(Unread::Stopped),
            });
        }
        if let Some(index) = &self.index {
            index.keep(&fresh.iter().map(|(key, outline)| (*key, outline)).collect::<Vec<_>>());
        }
        outlined
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
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(AT_ONCE);
    if threads < 2 || items.len() < 2 {
        return items.iter().map(work).collect();
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = vec![];
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    mine.push((at, work(item)));
                }
                done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(mine);
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, answer)| answer).collect()
}

fn cost(outline: &Outline) -> usize {
    let symbols = outline.symbols.iter();
    let symbols =
        symbols.map(|s| s.name.len() + s.container.as_ref().map_or(0, String::len) + ENTRY);
    let imports = outline.imports.iter();
    let names = |names: &[String]| names.iter().map(|name| name.len() + 8).sum::<usize>();
    let imports = imports.map(|import| import.target.len() + names(&import.names) + ENTRY);
    symbols.chain(imports).sum::<usize>() + ENTRY
}

fn told(outline: Outline, size: u64) -> wit::Outline {
    let Outline { language, lines, symbols, imports, complete } = outline;
    let symbol = |symbol: symbols::Symbol| wit::Symbol {
        name: symbol.name,
        kind: symbol.kind.word().to_owned(),
        container: symbol.container,
        first_line: symbol.first_line,
        last_line: symbol.last_line,
        exported: symbol.exported,
    };
    let edge = |import: symbols::Import| wit::Edge {
        line: import.line,
        target: import.target,
        names: import.names,
    };
    wit::Outline {
        language: language.word().to_owned(),
        lines,
        size,
        symbols: symbols.into_iter().map(symbol).collect(),
        imports: imports.into_iter().map(edge).collect(),
        complete,
    }
}
