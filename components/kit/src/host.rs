//! The traits of [`crate::world`] on the real host, through WIT.

use crate::bindings::agentcommand::model::chat;
use crate::bindings::agentcommand::progress::progress;
use crate::bindings::agentcommand::repo::{history, read, symbols};
use crate::world::{
    Advice, Answer, Changes, Chunk, Conversation, Counted, Hits, Model, Outline, Pattern, Progress,
    Refusal, Repository, Selection, Slice, SummaryTable, Tool, Turn, World,
};

/// The host that this component runs in.
pub(crate) struct Host;

/// Returns what the host gives to this component.
pub fn world() -> World<'static> {
    World { repository: &Host, model: &Host, progress: &Host }
}

impl Repository for Host {
    fn list_page(&self, want: &Selection, cursor: Option<&str>) -> Result<Counted, Refusal> {
        read::list_counted(want, cursor)
    }

    fn read_slices(&self, want: &[Slice]) -> Vec<Result<Chunk, Refusal>> {
        read::read_many(want)
    }

    fn search_page(
        &self,
        want: &Pattern,
        within: &Selection,
        cursor: Option<&str>,
    ) -> Result<Hits, Refusal> {
        read::search(want, within, cursor)
    }

    fn outline_page(&self, paths: &[String]) -> Vec<Result<Outline, Refusal>> {
        symbols::outlines(paths)
    }

    fn languages(&self) -> Vec<String> {
        symbols::languages()
    }

    fn summary_table(&self, paths: &[String], names: &[String]) -> SummaryTable {
        symbols::summaries_as_table(paths, names)
    }

    fn expect_summaries(&self, paths: &[String], names: &[String]) {
        symbols::expect_summaries(paths, names);
    }

    fn recent_changes(&self, limit: u32) -> Result<Changes, Refusal> {
        history::recent_changes(limit)
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
        self.answer(&answers).map_err(Refusal::message)
    }

    fn next(&self) -> Result<Turn, String> {
        self.next(None, None).map_err(Refusal::message)
    }
}

impl Progress for Host {
    fn step(&self, message: &str) -> Advice {
        progress::step(message)
    }

    fn warn(&self, message: &str) {
        progress::log(progress::Level::Warn, message);
    }

    fn time_left(&self) -> u64 {
        progress::remaining().milliseconds
    }
}
