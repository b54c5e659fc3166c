//! A world in memory: files, a model that says what it was told to say, and a record of what it heard.

use crate::world::{
    Advice, Answer, Call, Conversation, Entry, File, Found, Hit, Model, Outline, Progress,
    Repository, Stop, Summary, Symbol, Tool, Turn, World,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

#[derive(Debug, Default)]
pub struct Files {
    texts: BTreeMap<String, String>,
    outlines: BTreeMap<String, Outline>,
    links: BTreeMap<String, String>,
}

impl Files {
    pub fn of(files: &[(&str, &str)]) -> Self {
        let text = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self { texts: files.iter().map(text).collect(), ..Self::default() }
    }

    #[must_use]
    pub fn linked(mut self, path: &str, target: &str) -> Self {
        self.links.insert(path.to_owned(), target.to_owned());
        self
    }

    /// What a parser says about one of them as a whole; its lines are counted here.
    #[must_use]
    pub fn outlined(mut self, path: &str, outline: Outline) -> Self {
        let lines = self.texts.get(path).map_or(0, |text| text.lines().count());
        let outline = Outline { lines: lines as u32, complete: true, ..outline };
        self.outlines.insert(path.to_owned(), outline);
        self
    }

    /// A parser did not see everything of it.
    #[must_use]
    pub fn incomplete(mut self, path: &str) -> Self {
        self.outlines.entry(path.to_owned()).or_default().complete = false;
        self
    }
}

impl Repository for Files {
    fn list(&self, most: usize) -> Result<Found<Entry>, String> {
        let file = |(path, text): (&String, &String)| {
            Entry::File(File { path: path.clone(), size: text.len() as u64 })
        };
        let links = self.links.keys().map(|path| Entry::Link(path.clone()));
        Ok(Found {
            items: self.texts.iter().map(file).chain(links).take(most).collect(),
            truncated: self.texts.len() + self.links.len() > most,
        })
    }

    fn read(&self, paths: &[&str], most: u64) -> Vec<Result<Vec<u8>, String>> {
        let read = |path: &&str| {
            let path = self.links.get(*path).map_or(*path, String::as_str);
            let text = self.texts.get(path).ok_or("not found")?;
            Ok(text.bytes().take(most as usize).collect())
        };
        paths.iter().map(read).collect()
    }

    /// Plain text only, and of a glob only the directory that it begins with.
    fn search(&self, regex: &str, glob: Option<&str>, most: usize) -> Result<Found<Hit>, String> {
        let mut items = Vec::new();
        let words = regex
            .trim_start_matches("\\b(")
            .trim_end_matches(")\\b")
            .split('|')
            .map(|word| word.replace('\\', ""))
            .collect::<Vec<_>>();
        let below = glob.and_then(|glob| glob.split_once("**")).map_or("", |(below, _)| below);
        for (path, text) in self.texts.iter().filter(|(path, _)| path.starts_with(below)) {
            for (index, line) in text.lines().enumerate() {
                if words.iter().any(|word| line.contains(word.as_str())) {
                    items.push(Hit {
                        path: path.clone(),
                        line: index as u32 + 1,
                        text: line.to_owned(),
                    });
                }
            }
        }
        let truncated = items.len() > most;
        items.truncate(most);
        Ok(Found { items, truncated })
    }

    fn outlines(&self, paths: &[&str]) -> Vec<Option<Outline>> {
        paths.iter().map(|path| self.outlines.get(*path).cloned()).collect()
    }

    fn summaries(&self, paths: &[&str], names: &[&str]) -> Vec<Option<Summary>> {
        let is_wanted = |symbol: &Symbol| {
            let name = symbol.name.to_lowercase();
            names.iter().any(|wanted| name.contains(&wanted.to_lowercase()))
        };
        let summary = |outline: Outline| {
            let mut summary = Summary::from(outline);
            summary.named.retain(is_wanted);
            summary
        };
        self.outlines(paths).into_iter().map(|outline| outline.map(summary)).collect()
    }
}

/// Built up turn by turn, then asked what happened.
#[derive(Default)]
pub struct Rehearsal {
    pub files: Files,
    script: Rc<RefCell<VecDeque<Turn>>>,
    heard: Rc<RefCell<Vec<String>>>,
    warned: RefCell<Vec<String>>,
    hurried: bool,
}

impl Rehearsal {
    pub fn new(files: Files) -> Self {
        Self { files, ..Self::default() }
    }

    /// The next turn is text.
    #[must_use]
    pub fn says(self, text: &str) -> Self {
        let turn = Turn { text: text.to_owned(), calls: vec![], stop: Stop::Done };
        self.script.borrow_mut().push_back(turn);
        self
    }

    /// The next turn is calls of tools.
    #[must_use]
    pub fn calls(self, calls: &[(&str, &str)]) -> Self {
        let call = |(at, (name, arguments)): (usize, &(&str, &str))| Call {
            id: format!("call-{at}"),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        };
        let calls = calls.iter().enumerate().map(call).collect();
        self.script.borrow_mut().push_back(Turn { text: String::new(), calls, stop: Stop::Tools });
        self
    }

    /// The host advises to wrap up.
    #[must_use]
    pub fn hurried(mut self) -> Self {
        self.hurried = true;
        self
    }

    pub fn world(&self) -> World<'_> {
        World { repository: &self.files, model: self, progress: self }
    }

    /// What was said to the model, in order.
    pub fn heard(&self) -> Vec<String> {
        self.heard.borrow().clone()
    }

    pub fn warned(&self) -> Vec<String> {
        self.warned.borrow().clone()
    }

    pub fn turns_left(&self) -> usize {
        self.script.borrow().len()
    }
}

struct Talk {
    script: Rc<RefCell<VecDeque<Turn>>>,
    heard: Rc<RefCell<Vec<String>>>,
}

impl Model for Rehearsal {
    fn open(&self, system: &str, _: &[Tool]) -> Box<dyn Conversation> {
        self.heard.borrow_mut().push(format!("system: {system}"));
        Box::new(Talk { script: self.script.clone(), heard: self.heard.clone() })
    }
}

impl Conversation for Talk {
    fn say(&self, text: &str) {
        self.heard.borrow_mut().push(format!("say: {text}"));
    }

    fn answer(&self, answers: Vec<Answer>) -> Result<(), String> {
        for answer in answers {
            let kind = if answer.is_error { "error" } else { "answer" };
            self.heard.borrow_mut().push(format!("{kind}: {}", answer.content));
        }
        Ok(())
    }

    fn next(&self) -> Result<Turn, String> {
        self.script
            .borrow_mut()
            .pop_front()
            .ok_or_else(|| "the rehearsal has no further turn".to_owned())
    }
}

impl Progress for Rehearsal {
    fn step(&self, _: &str) -> Advice {
        if self.hurried { Advice::WrapUp } else { Advice::CarryOn }
    }

    fn time_left(&self) -> u64 {
        60_000
    }

    fn warn(&self, message: &str) {
        self.warned.borrow_mut().push(message.to_owned());
    }
}
