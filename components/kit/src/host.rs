//! The world as the host gives it, through WIT.

use crate::bindings::agentcommand::model::chat;
use crate::bindings::agentcommand::progress::progress;
use crate::bindings::agentcommand::repo::{read, symbols};
use crate::bindings::agentcommand::types::types::Refusal;
use crate::bindings::exports::agentcommand::scout::scout as export;
use crate::world::{
    Advice, Answer, Call, Conversation, Failure, File, Found, Hit, Import, Model, Outline,
    Progress, Question, Repository, Stop, Symbol, Tool, Turn, World,
};

struct Host;

/// The only world that a component has.
pub fn world() -> World<'static> {
    World { repository: &Host, model: &Host, progress: &Host }
}

impl Repository for Host {
    fn list(&self, most: usize) -> Result<Found<File>, String> {
        let want = read::Selection { under: vec![], globs: vec![], kinds: vec![read::Kind::File] };
        let mut found = Found { items: Vec::new(), truncated: false };
        let mut cursor = None;
        loop {
            let page = read::list_entries(&want, cursor.as_deref()).map_err(said)?;
            found.items.extend(
                page.items.into_iter().map(|entry| File { path: entry.path, size: entry.size }),
            );
            found.truncated |= page.truncated;
            cursor = page.next;
            if cursor.is_none() || found.items.len() >= most {
                break;
            }
        }
        found.truncated |= cursor.is_some() || found.items.len() > most;
        found.items.truncate(most);
        Ok(found)
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
        let mut found = Found { items: Vec::new(), truncated: false };
        let mut cursor = None;
        loop {
            let page = read::search(&pattern, &within, cursor.as_deref()).map_err(said)?;
            let hit = |hit: read::Hit| Hit { path: hit.path, line: hit.line, text: hit.text };
            found.items.extend(page.items.into_iter().map(hit));
            found.truncated |= page.truncated;
            cursor = page.next;
            if cursor.is_none() || found.items.len() >= most {
                break;
            }
        }
        found.truncated |= cursor.is_some() || found.items.len() > most;
        found.items.truncate(most);
        Ok(found)
    }

    fn outlines(&self, paths: &[&str]) -> Vec<Option<Outline>> {
        outlined(paths)
    }
}

/// One answer for each path. What did not fit into an answer is asked for again, as long as each answer brings some.
fn outlined(paths: &[&str]) -> Vec<Option<Outline>> {
    let mut answers = Vec::with_capacity(paths.len());
    while answers.len() < paths.len() {
        let rest = &paths[answers.len()..];
        let rest = rest.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let mut brought = 0;
        for answer in symbols::outlines(&rest) {
            match answer {
                Ok(outline) => answers.push(Some(outline.into())),
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
        let symbol = |symbol: symbols::Symbol| Symbol {
            name: symbol.name,
            kind: symbol.kind,
            container: symbol.container,
            first_line: symbol.first_line,
            last_line: symbol.last_line,
            exported: symbol.exported,
        };
        let import = |edge: symbols::Edge| Import {
            line: edge.line,
            target: edge.target,
            names: edge.names,
        };
        Self {
            language: outline.language,
            lines: outline.lines,
            symbols: outline.symbols.into_iter().map(symbol).collect(),
            imports: outline.imports.into_iter().map(import).collect(),
            complete: outline.complete,
        }
    }
}

impl Model for Host {
    fn open(&self, system: &str, tools: &[Tool]) -> Box<dyn Conversation> {
        let tool = |tool: &Tool| chat::Tool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
        };
        Box::new(chat::Conversation::new(system, &tools.iter().map(tool).collect::<Vec<_>>()))
    }
}

impl Conversation for chat::Conversation {
    fn say(&self, text: &str) {
        self.say(text);
    }

    fn answer(&self, answers: Vec<Answer>) -> Result<(), String> {
        let result = |answer: Answer| chat::ToolResult {
            id: answer.id,
            content: answer.content,
            is_error: answer.is_error,
        };
        self.answer(&answers.into_iter().map(result).collect::<Vec<_>>()).map_err(said)
    }

    fn next(&self) -> Result<Turn, String> {
        let turn = self.next(None, None).map_err(said)?;
        let call =
            |call: chat::ToolCall| Call { id: call.id, name: call.name, arguments: call.arguments };
        let stop = match turn.stop {
            chat::Stop::Done => Stop::Done,
            chat::Stop::Tools => Stop::Tools,
            chat::Stop::Length => Stop::Length,
            chat::Stop::Refused => Stop::Refused,
        };
        Ok(Turn { text: turn.text, calls: turn.calls.into_iter().map(call).collect(), stop })
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
