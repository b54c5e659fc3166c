//! `repo.symbols`: outlines of files, read through the same view and counted against the same bytes as reading.
//!
//! What is told, denied and answered keeps the order of the call, however the work behind it (`outlining`) goes on.

use std::sync::Arc;

use super::denied;
use super::outlining::{Ask, Outlined, Unread, Work};
use super::repo_read::spent;
use crate::bindings::symbols::{self as wit, Host};
use crate::bindings::types::Refusal;
use crate::failure::Ended;
use crate::state::State;
use act_symbols::{Brief, Index, Key, Language, MAX_SOURCE, Outline, Summary, Wanted};

const GRANT: &str = "repo.read";
/// Files between two looks into the index.
const BATCH: usize = 64;
/// What an entry costs beside its texts, out of the bytes of one answer.
const ENTRY: usize = 48;

impl Host for State {
    fn languages(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(Language::words().map(str::to_owned).to_vec())
    }

    fn outlines(
        &mut self,
        paths: Vec<String>,
    ) -> wasmtime::Result<Vec<Result<wit::Outline, Refusal>>> {
        let kept = |index: &Index, keys: &[Key]| index.get(keys);
        self.told(&paths, &Ask { kept, made: |outline| outline })
    }

    fn summaries(
        &mut self,
        paths: Vec<String>,
        names: Vec<String>,
    ) -> wasmtime::Result<Vec<Result<wit::Summary, Refusal>>> {
        let wanted = match Wanted::new(&names) {
            Ok(wanted) => wanted,
            Err(error) => {
                let refusal = || Refusal::Invalid(format!("bad_arguments: {error}"));
                return Ok(paths.iter().map(|_| Err(refusal())).collect());
            }
        };
        let kept = |index: &Index, keys: &[Key]| index.summaries(keys, &wanted);
        self.told(&paths, &Ask { kept, made: |outline| Summary::of(outline, &wanted) })
    }
}

/// What can be said of a file through WIT.
trait Told {
    type Wit;
    /// Out of the bytes of one answer.
    fn cost(&self) -> usize;
    fn told(self, size: u64) -> Self::Wit;
}

impl State {
    fn told<T: Told>(
        &mut self,
        paths: &[String],
        ask: &Ask<impl Fn(&Index, &[Key]) -> Vec<Option<T>>, impl Fn(Outline) -> T>,
    ) -> wasmtime::Result<Vec<Result<T::Wit, Refusal>>> {
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
            let outlined = if room > 0 { work.each(batch, ask) } else { vec![] };
            // Whoever stopped the query is not told of what was half done.
            self.query.go_on()?;
            let outlined = outlined.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
            for (path, outlined) in batch.iter().zip(outlined) {
                answers.push(self.answer(path, outlined, &mut room)?);
            }
        }
        Ok(answers)
    }

    fn answer<T: Told>(
        &mut self,
        path: &str,
        outlined: Option<Result<Outlined<T>, Unread>>,
        room: &mut usize,
    ) -> Result<Result<T::Wit, Refusal>, Ended> {
        Ok(match outlined {
            Some(Ok(Outlined { said, size })) => match room.checked_sub(said.cost()) {
                Some(left) => {
                    *room = left;
                    Ok(said.told(size))
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

impl Told for Outline {
    type Wit = wit::Outline;

    fn cost(&self) -> usize {
        cost(&self.symbols, &self.imports)
    }

    fn told(self, size: u64) -> wit::Outline {
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

impl Told for Summary {
    type Wit = wit::Summary;

    fn cost(&self) -> usize {
        cost(&self.named, &self.brief.imports)
    }

    fn told(self, size: u64) -> wit::Summary {
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
