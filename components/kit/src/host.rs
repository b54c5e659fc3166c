//! The world as the host gives it, through WIT.

use crate::bindings::agentcommand::model::chat;
use crate::bindings::agentcommand::progress::progress;
use crate::bindings::agentcommand::repo::{read, symbols};
use crate::bindings::agentcommand::types::types::Refusal;
use crate::bindings::exports::agentcommand::scout::scout as export;
use crate::world::{
    Advice, Answer, Conversation, Entry, Failure, File, Found, Hit, Import, Model, Outline,
    Progress, Question, Repository, Summary, Symbol, Tool, Turn, World,
};

struct Host;

/// The only world that a component has.
pub fn world() -> World<'static> {
    World { repository: &Host, model: &Host, progress: &Host }
}

impl Repository for Host {
    fn list(&self, most: usize) -> Result<Found<Entry>, String> {
        let kinds = vec![read::Kind::File, read::Kind::Link];
        let want = read::Selection { under: vec![], globs: vec![], kinds };
        let entry = |entry: read::Entry| match entry.kind {
            read::Kind::Link => Entry::Link(entry.path),
            _ => Entry::File(File { path: entry.path, size: entry.size }),
        };
        all_pages(most, |cursor| {
            let read::Entries { items, next, truncated } = read::list_entries(&want, cursor)?;
            Ok((Found { items: items.into_iter().map(entry).collect(), truncated }, next))
        })
    }

    fn read(&self, paths: &[&str], most: u64) -> Vec<Result<Vec<u8>, String>> {
        let slice = |path: &&str| read::Slice {
            path: (*path).to_owned(),
            offset: 0,
            length: Some(most),
            with_version: false,
        };
        let chunks = read::read_many(&paths.iter().map(slice).collect::<Vec<_>>());
        chunks.into_iter().map(|chunk| chunk.map(|chunk| chunk.bytes).map_err(said)).collect()
    }

    fn search(&self, regex: &str, glob: Option<&str>, most: usize) -> Result<Found<Hit>, String> {
        let pattern =
            read::Pattern { regex: regex.to_owned(), ignore_case: false, multi_line: false };
        let globs = glob.map(str::to_owned).into_iter().collect();
        let within = read::Selection { under: vec![], globs, kinds: vec![] };
        let hit = |hit: read::Hit| Hit { path: hit.path, line: hit.line, text: hit.text };
        all_pages(most, |cursor| {
            let read::Hits { items, next, truncated } = read::search(&pattern, &within, cursor)?;
            Ok((Found { items: items.into_iter().map(hit).collect(), truncated }, next))
        })
    }

    fn outlines(&self, paths: &[&str]) -> Vec<Option<Outline>> {
        each(paths, symbols::outlines)
    }

    fn summaries(&self, paths: &[&str], names: &[&str]) -> Vec<Option<Summary>> {
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        each(paths, |paths| symbols::summaries(paths, &names))
    }
}

/// A page, and the cursor of the one behind it.
type Page<T> = (Found<T>, Option<String>);

/// Page after page, until there is no more or there are `most`.
fn all_pages<T>(
    most: usize,
    page: impl Fn(Option<&str>) -> Result<Page<T>, Refusal>,
) -> Result<Found<T>, String> {
    let mut found = Found { items: Vec::new(), truncated: false };
    let mut cursor = None;
    loop {
        let (more, next) = page(cursor.as_deref()).map_err(said)?;
        found.items.extend(more.items);
        found.truncated |= more.truncated;
        cursor = next;
        if cursor.is_none() || found.items.len() >= most {
            break;
        }
    }
    found.truncated |= cursor.is_some() || found.items.len() > most;
    found.items.truncate(most);
    Ok(found)
}

/// One answer for each path. What did not fit into an answer is asked for again, as long as each answer brings some.
fn each<W, T: From<W> + Clone>(
    paths: &[&str],
    ask: impl Fn(&[String]) -> Vec<Result<W, Refusal>>,
) -> Vec<Option<T>> {
    let mut answers = Vec::with_capacity(paths.len());
    while answers.len() < paths.len() {
        let rest = &paths[answers.len()..];
        let rest = rest.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let mut brought = 0;
        for answer in ask(&rest) {
            match answer {
                Ok(said) => answers.push(Some(said.into())),
                Err(Refusal::Limit(why)) if why.starts_with("call_bytes") && brought > 0 => break,
                Err(_) => answers.push(None),
            }
            brought += 1;
        }
        if brought == 0 {
            break;
        }
    }
    answers.resize(paths.len(), None);
    answers
}

impl From<symbols::Outline> for Outline {
    fn from(outline: symbols::Outline) -> Self {
        Self {
            language: outline.language,
            lines: outline.lines,
            symbols: outline.symbols.into_iter().map(Symbol::from).collect(),
            imports: outline.imports.into_iter().map(Import::from).collect(),
            complete: outline.complete,
        }
    }
}

impl From<symbols::Summary> for Summary {
    fn from(summary: symbols::Summary) -> Self {
        Self {
            language: summary.language,
            lines: summary.lines,
            symbols: summary.symbols,
            exported: summary.exported,
            tests: summary.tests,
            named: summary.named.into_iter().map(Symbol::from).collect(),
            imports: summary.imports.into_iter().map(Import::from).collect(),
            complete: summary.complete,
        }
    }
}

impl From<symbols::Symbol> for Symbol {
    fn from(symbol: symbols::Symbol) -> Self {
        Self {
            name: symbol.name,
            kind: symbol.kind,
            container: symbol.container,
            first_line: symbol.first_line,
            last_line: symbol.last_line,
            exported: symbol.exported,
        }
    }
}

impl From<symbols::Edge> for Import {
    fn from(edge: symbols::Edge) -> Self {
        Self { line: edge.line, target: edge.target, names: edge.names }
    }
}

impl Model for Host {
    fn open(&self, system: &str, tools: &[Tool]) -> Box<dyn Conversation> {
        Box::new(chat::Conversation::new(system, tools))
    }
}

impl Conversation for chat::Conversation {
    fn say(&self, text: &str) {
        self.say(text);
    }

    fn answer(&self, answers: Vec<Answer>) -> Result<(), String> {
        self.answer(&answers).map_err(said)
    }

    fn next(&self) -> Result<Turn, String> {
        let turn = self.next(None, None).map_err(said)?;
        Ok(Turn { text: turn.text, calls: turn.calls, stop: turn.stop })
    }
}

impl Progress for Host {
    fn step(&self, message: &str) -> Advice {
        match progress::step(message) {
            progress::Advice::CarryOn => Advice::CarryOn,
            progress::Advice::WrapUp => Advice::WrapUp,
        }
    }

    fn warn(&self, message: &str) {
        progress::log(progress::Level::Warn, message);
    }

    fn time_left(&self) -> u64 {
        progress::remaining().milliseconds
    }
}

impl From<export::Question> for Question {
    fn from(question: export::Question) -> Self {
        Self { text: question.text, context: question.context, facts_only: question.facts_only }
    }
}

impl From<Failure> for export::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::OutOfScope(why) => Self::OutOfScope(why),
            Failure::Model(why) => Self::Model(why),
            Failure::Other(why) => Self::Other(why),
        }
    }
}

fn said(refusal: Refusal) -> String {
    match refusal {
        Refusal::NotFound => "not found".to_owned(),
        Refusal::Stale => "the repository changed meanwhile".to_owned(),
        Refusal::Invalid(why)
        | Refusal::Denied(why)
        | Refusal::Limit(why)
        | Refusal::Failed(why) => why,
    }
}
