//! The pages. Each is complete without script; a region with `data-live` is replaced by the script when an event says that
//! something has changed.
//!
//! Text from a repository, a model, a component or a step is text here: maud escapes it wherever it is put, and [`line`] and
//! [`block`] take out what a reader cannot see for what it is.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::server::{piece, task_unknown};
use crate::story::{Attempt, Items, Milestone, Story};
use act_core::event::ModelUsage;
use act_core::verification::Manifest;
use act_core::{Failure, RunId, Usd, terminal_text};
use act_records::artifacts::{COMBINED, log_name};
use act_records::store::{Task, TaskState};
use act_task::{Attention, AuditFilter, Need, Needs, Observer, TaskId};

pub(crate) const STYLE: &str = include_str!("assets/style.css");
pub(crate) const SCRIPT: &str = include_str!("assets/script.js");
pub(crate) const ICON: &str = include_str!("assets/icon.svg");

/// Tasks on the page of tasks.
const TASKS: u32 = 100;
/// Milestones that a page begins with.
const MILESTONES: usize = 40;
/// Bytes of a patch on a page.
const MAX_PATCH: usize = 512 << 10;
/// Bytes of a log in which a page searches.
const MAX_SEARCHED: u64 = 64 << 20;
/// Lines that a search shows.
const MAX_FOUND: usize = 500;
/// Bytes of a line that a search shows.
const MAX_LINE: usize = 2000;
/// Lines of the failing step on the page of a task.
const TAIL: usize = 40;
/// Records of the audit log on a page.
const RECORDS: usize = 200;

/// The values that every page is made with.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// The place in the stream from which the script follows.
    pub(crate) cursor: String,
    pub(crate) form: String,
    /// The page was reached by 127.0.0.1, where cookies are less safe.
    pub(crate) is_literal: bool,
    pub(crate) memo: Arc<Memo>,
}

/// Answers that cost much: the difference of a task reads the audit log and every changed file, and the failures of a run the list
/// of the repository's files. The page of a task that works is asked for about once a second by everybody who watches.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    failures: Mutex<VecDeque<(String, FailureLines)>>,
    differences: Mutex<VecDeque<Difference>>,
}

/// The difference that a task has made.
#[derive(Debug)]
struct Difference {
    task_id: String,
    /// Number of its edits so far.
    edits: u64,
    made: Instant,
    text: Result<String, Failure>,
}

/// Number of answers of a kind that are remembered.
const REMEMBERED: usize = 32;
/// Time after which a difference is made anew although the task has made no edit, because the user may have.
const DIFFERENCE_LIFE: Duration = Duration::from_secs(10);

/// The failures of a run as lines, and how many more there are.
#[derive(Debug, Clone, Default)]
struct FailureLines {
    lines: Vec<String>,
    more: usize,
}

impl Memo {
    /// Returns the failures of a run that has ended; none where they cannot be read.
    fn failures(&self, observer: &Observer, task: &Task, run_id: &str) -> FailureLines {
        let lock = || self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = lock().iter().find(|(of, _)| of == run_id) {
            return known.clone();
        }
        let list = observer.failures(task, run_id).ok();
        let lines = list.map(|list| FailureLines {
            lines: list.failures.iter().map(act_task::PlacedFailure::line).collect(),
            more: list.more,
        });
        let lines = lines.unwrap_or_default();
        let mut known = lock();
        known.push_back((run_id.to_owned(), lines.clone()));
        if known.len() > REMEMBERED {
            known.pop_front();
        }
        lines
    }

    /// Returns the difference that a task made with so many edits.
    fn difference(&self, observer: &Observer, task: &Task, edits: u64) -> Result<String, Failure> {
        let lock = || self.differences.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &&Difference| {
            known.task_id == task.task_id
                && known.edits == edits
                && known.made.elapsed() < DIFFERENCE_LIFE
        };
        if let Some(known) = lock().iter().find(is_it) {
            return known.text.clone();
        }
        let made = observer.diff(task);
        let made = made.map(|diff| String::from_utf8_lossy(&diff.patch.0).into_owned());
        // A larger one would not be shown whole.
        let made = made.map(|diff| diff.chars().take(2 * MAX_PATCH).collect::<String>());
        let mut known = lock();
        known.retain(|known| known.task_id != task.task_id);
        let text = made.clone();
        known.push_back(Difference {
            task_id: task.task_id.clone(),
            edits,
            made: Instant::now(),
            text,
        });
        if known.len() > REMEMBERED {
            known.pop_front();
        }
        made
    }
}

/// The part of a log that the page of a run shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogQuery {
    pub(crate) step: Option<String>,
    pub(crate) words: Option<String>,
    pub(crate) from: Option<u64>,
}

fn line(text: &str) -> Cow<'_, str> {
    terminal_text::line(text)
}

fn block(text: &str) -> Cow<'_, str> {
    terminal_text::block(text)
}

impl Page {
    fn of(&self, title: &str, here: &str, task: Option<&str>, main: Markup) -> Markup {
        document(
            title,
            Some((self, task)),
            html! {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    span.name { "act watch" }
                    nav aria-label="Pages" {
                        ul {
                            @for (address, name) in [("/", "Tasks"), ("/audit", "Audit"), ("/metrics", "Metrics")] {
                                li { a href=(address) aria-current=[(here == address).then_some("page")] { (name) } }
                            }
                        }
                    }
                    span #live role="status" { "Not live: reload the page to see what is new" }
                }
                main #main tabindex="-1" {
                    @if self.is_literal {
                        div.note role="note" {
                            "This page was reached by 127.0.0.1. Browsers send the cookie of this page to every port of 127.0.0.1, so a "
                            "program of another user on this machine that you open in the same browser could read the pages until act watch ends. "
                            "The address that act watch printed has a name of its own, which no other program has."
                        }
                    }
                    (main)
                }
                footer {
                    "Read from journals and store on this machine. To see this from another machine: "
                    code { "ssh -L" } " to the socket of " code { "act watch --socket" } "."
                }
            },
        )
    }
}

fn document(title: &str, script: Option<(&Page, Option<&str>)>, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (line(title)) " · act watch" }
                link rel="icon" href="/icon.svg";
                link rel="stylesheet" href="/style.css";
                @if script.is_some() { script src="/script.js" defer {} }
            }
            body data-cursor=[script.map(|(page, _)| &page.cursor)] data-task=[script.and_then(|(_, task)| task)] {
                (body)
            }
        }
    }
}

/// The page for a peer without a session.
pub(crate) fn closed() -> Markup {
    document(
        "Closed",
        None,
        html! {
            main #main {
                h1 { "This page is closed" }
                p { "An address of act watch works once and within 60 seconds. Press Enter in the terminal where act watch runs, and open the new address." }
            }
        },
    )
}

/// The page that goes on to the tasks by itself.
pub(crate) fn entered() -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="refresh" content="0;url=/";
                title { "act watch" }
                link rel="stylesheet" href="/style.css";
            }
            body { main #main { h1 { "act watch" } p { a href="/" { "To the tasks" } } } }
        }
    }
}

pub(crate) fn failed(page: &Page, failure: &Failure) -> Markup {
    page.of(
        "Not shown",
        "",
        None,
        html! {
            h1 { "This cannot be shown" }
            p.words { (block(&failure.message)) }
            @if let Some(hint) = &failure.hint { p.soft { (line(hint)) } }
            p { a href="/" { "To the tasks" } }
        },
    )
}

/// A state as a word with a shape, so that neither colour nor shape is needed to read it.
fn state_mark(word: &str) -> Markup {
    let (class, path) = match word {
        "RUNNING" => ("busy", r#"<path d="M3 1.5 11 6 3 10.5Z"/>"#),
        "QUEUED" => ("calm", r#"<circle cx="6" cy="6" r="4.5" fill="none" stroke-width="1.5"/>"#),
        "SUCCESS" | "PASS" => {
            ("good", r#"<path d="M1.5 6.5 4.5 9.5 10.5 2.5" fill="none" stroke-width="2"/>"#)
        }
        "PROPOSED" => ("warn", r#"<path d="M6 1 11 6 6 11 1 6Z" fill="none" stroke-width="1.5"/>"#),
        "STUCK" | "FAIL" | "FAILED" => {
            ("bad", r#"<path d="M2 2 10 10M10 2 2 10" fill="none" stroke-width="2"/>"#)
        }
        "INFRA_ERROR" => ("bad", r#"<path d="M6 1 11.5 11H.5Z"/>"#),
        "CANCELLED" => ("calm", r#"<path d="M2 2H10V10H2Z"/>"#),
        "REFUSED" => ("bad", r#"<path d="M1 6H11" fill="none" stroke-width="3"/>"#),
        _ => ("calm", r#"<circle cx="6" cy="6" r="2"/>"#),
    };
    html! {
        span.state.(class) {
            svg viewBox="0 0 12 12" aria-hidden="true" focusable="false" { (PreEscaped(path)) }
            (line(word))
        }
    }
}

fn parsed(time: &str) -> Option<DateTime<Utc>> {
    time.parse().ok()
}

/// The age of something, which the script counts on.
fn age(time: &str) -> Markup {
    let seconds = parsed(time).map(|at| (Utc::now() - at).num_seconds().max(0));
    html! {
        @match seconds {
            Some(seconds) => time datetime=(line(time)) title=(line(time)) data-age { (span(seconds)) },
            None => (line(time)),
        }
    }
}

fn span(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A point in time, to the second.
fn at(time: &str) -> Markup {
    html! {
        @match parsed(time) {
            Some(at) => time datetime=(line(time)) { (at.format("%Y-%m-%d %H:%M:%S UTC").to_string()) },
            None => (line(time)),
        }
    }
}

fn clock(time: &str) -> Markup {
    html! {
        @match parsed(time) {
            Some(at) => time.soft.small datetime=(line(time)) { (at.format("%H:%M:%S").to_string()) " " },
            None => "",
        }
    }
}

fn duration(ms: u64) -> String {
    match ms {
        ..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

fn tokens(usage: &BTreeMap<String, ModelUsage>) -> u64 {
    usage.values().map(|usage| usage.input.saturating_add(usage.output)).sum()
}

fn count(number: u64) -> String {
    match number {
        ..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{:.1} k", number as f64 / 1e3),
        _ => format!("{:.1} M", number as f64 / 1e6),
    }
}

fn cost(cost: Option<Usd>, usage: &BTreeMap<String, ModelUsage>) -> String {
    match cost {
        _ if usage.is_empty() => "none yet".to_owned(),
        Some(cost) => cost.rounded(),
        None => "not known".to_owned(),
    }
}

/// The last part of a path, for a table; the whole path is on the page of the task.
fn short(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

fn more(left_out: usize) -> Markup {
    html! { @if left_out > 0 { li.soft { "and " (left_out) " more" } } }
}

/// Makes text safe as a part of an address.
fn encoded(text: &str) -> String {
    let keep = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let one = |byte: u8| match keep(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

fn task_link(task_id: &str) -> Markup {
    html! { a.code href={ "/tasks/" (encoded(task_id)) } { (line(task_id)) } }
}

fn run_link(run_id: &str) -> Markup {
    html! { a.code href={ "/runs/" (encoded(run_id)) } { (line(run_id)) } }
}

/// Returns the words for whatever a task waits for; empty where it waits for nothing.
fn waits_for(task: &Task) -> String {
    match (task.state, task.owner, task.position) {
        (_, Some("stalled"), _) => "its process, which was stopped".to_owned(),
        (_, Some("dead"), _) => "nothing: its process has died".to_owned(),
        (TaskState::Queued, _, Some(position)) => format!("its turn, position {position}"),
        _ => String::new(),
    }
}

fn need_text(need: &Need) -> Markup {
    let task = need.task_id.as_deref();
    let what = need.what.as_deref().unwrap_or_default();
    html! {
        @match need.kind {
            Attention::Permission => {
                (state_mark("RUNNING")) " " @if let Some(task) = task { (task_link(task)) }
                " asks whether it may change " code { (line(what)) } ". The editor that started it has the question."
            },
            Attention::Stuck => {
                (state_mark("STUCK")) " " @if let Some(task) = task { (task_link(task)) }
                " gave up (" (line(what)) "). " code { "act report" } " shows why; "
                code { "act report --resolve" } " resolves it."
            },
            Attention::InfraError => {
                (state_mark("INFRA_ERROR")) " " @if let Some(task) = task { (task_link(task)) }
                " ended because the machine failed (" (line(what)) "). Run it again when that is mended."
            },
            Attention::Proposed => {
                (state_mark("PROPOSED")) " " @if let Some(task) = task { (task_link(task)) }
                " has a proposal. " code { "act apply" @if let Some(task) = task { " " (line(task)) } } " applies it."
            },
            Attention::Component => {
                @match task {
                    Some(task) => {
                        (state_mark("REFUSED")) " " (task_link(task)) " was refused (" (line(what)) "). "
                        code { "act components" } " shows which component awaits approval; run the task again after it."
                    },
                    None => {
                        (state_mark("approval")) " component " code { (line(what)) }
                        " awaits approval. " code { "act components" } " shows what it asks for."
                    },
                }
            },
            Attention::Stalled => {
                (state_mark("RUNNING")) " " @if let Some(task) = task { (task_link(task)) }
                " does not go on, because its process was stopped."
            },
        }
        " " span.soft { "in " span.code { (line(&need.repo)) } }
    }
}

/// The page of tasks.
///
/// # Errors
///
/// The store cannot be read.
pub(crate) fn tasks(page: &Page, observer: &Observer) -> Result<Markup, Failure> {
    let history = observer.history(TASKS)?;
    let damaged = &history.damaged;
    let Needs { needs, more } = observer.needs(&history.tasks)?;
    let (mut open, ended): (Vec<&Task>, Vec<&Task>) =
        history.tasks.iter().partition(|task| !task.state.is_final());
    // Running tasks come first, and then waiting ones in the order of their turns.
    open.sort_by_key(|task| (task.state != TaskState::Running, task.position));
    let running = open.iter().filter(|task| task.state == TaskState::Running).count();
    let title = match (needs.len(), running) {
        (0, 0) => "Tasks".to_owned(),
        (0, running) => format!("{running} running"),
        (needs, running) => {
            format!("{}{needs} need you, {running} running", if more { "more than " } else { "" })
        }
    };
    Ok(page.of(&title, "/", None, html! {
        h1 { "Tasks" }
        section aria-labelledby="needs-title" {
            h2 id="needs-title" { "Needs you" }
            div #needs data-live {
                @if needs.is_empty() { p.soft { "Nothing waits for you." } }
                @else {
                    ul.plain.lines { @for need in &needs { li { (need_text(need)) } } }
                    @if more { p.soft { "There are more; " code { "act history --all" } " lists their tasks." } }
                }
            }
        }
        section aria-labelledby="open-title" {
            h2 id="open-title" { "Running and waiting" }
            div #open data-live {
                @if open.is_empty() { p.soft { "Nothing runs or waits." } }
                @else { (task_table("Tasks that run or wait", "Phase", &open)) }
            }
        }
        section aria-labelledby="milestones-title" {
            h2 id="milestones-title" { "Milestones" }
            p.soft.small { "Milestones of all tasks appear here while the page is open." }
            (milestone_log(&[]))
        }
        section aria-labelledby="ended-title" {
            h2 id="ended-title" { "Ended" }
            div #ended data-live {
                @if ended.is_empty() { p.soft { "No task has ended yet. " code { "act run" } " starts one." } }
                @else { (task_table("Tasks that have ended, the newest first", "Reason", &ended)) }
                @if !damaged.is_empty() {
                    div.note {
                        "These tasks cannot be shown, because their rows in the store are damaged:"
                        ul.plain { @for one in damaged { li { (state_mark("damaged")) " " span.code { (line(&one.task_id)) } ": " (line(&one.why)) } } }
                    }
                }
                @if history.more { p.soft { "Older tasks are not listed; " code { "act history --all" } " lists them." } }
            }
        }
    }))
}

fn task_table(caption: &str, why: &str, tasks: &[&Task]) -> Markup {
    let names = ["State", "Task", why, "Attempt", "Age", "Tokens", "Cost"];
    html! {
        table.stack role="table" {
            caption.unseen { (caption) }
            thead role="rowgroup" {
                tr role="row" {
                    @for name in names {
                        th role="columnheader" scope="col" class=[matches!(name, "Tokens" | "Cost").then_some("number")] { (name) }
                    }
                }
            }
            tbody role="rowgroup" {
                @for task in tasks {
                    tr role="row" {
                        td role="cell" { (state_mark(task.state.as_str())) }
                        th role="rowheader" scope="row" {
                            span.excerpt { (line(task.text.lines().next().unwrap_or_default())) }
                            span.small.soft { a.code id={ "row-" (task.task_id) } href={ "/tasks/" (encoded(&task.task_id)) } { (line(&task.task_id)) } " in " span.code { (line(short(task.repo.root()))) } }
                        }
                        td role="cell" data-name=(why) {
                            @let waits = waits_for(task);
                            @if !waits.is_empty() { span.warn { "waits for " (waits) } }
                            @else if let Some(phase) = &task.phase { (line(phase)) }
                            @else { (line(task.reason.as_deref().unwrap_or("–"))) }
                        }
                        td.nowrap role="cell" data-name="Attempt" { (task.attempt) " of " (task.max_attempts) }
                        td.nowrap role="cell" data-name="Age" {
                            (age(task.finished_at.as_deref().or(task.started_at.as_deref()).unwrap_or(&task.submitted_at)))
                        }
                        td.number role="cell" data-name="Tokens" { (count(tokens(&task.tokens))) }
                        td.number role="cell" data-name="Cost" { (cost(task.cost_usd, &task.tokens)) }
                    }
                }
            }
        }
    }
}

/// The heads of a table whose rows become blocks on a narrow screen. The roles keep it a table for assistive technology.
fn stack_head(names: &[&str]) -> Markup {
    html! {
        thead role="rowgroup" { tr role="row" { @for name in names { th role="columnheader" scope="col" { (name) } } } }
    }
}

/// The list to which the script appends milestones, and whose additions are announced. Nothing else on a page is.
fn milestone_log(milestones: &[Milestone]) -> Markup {
    html! {
        div #milestones role="log" aria-live="polite" aria-label="Milestones" tabindex="0" {
            @for one in milestones { p { (clock(&one.time)) (line(&one.text)) } }
        }
    }
}

/// The page of a task.
///
/// # Errors
///
/// There is no such task, or the store cannot be read.
pub(crate) fn task(page: &Page, observer: &Observer, task_id: &str) -> Result<Markup, Failure> {
    if !TaskId::is_one(task_id) {
        return Err(task_unknown("of that name"));
    }
    observer.record_dead_tasks()?;
    let seen = observer.task(task_id)?.ok_or_else(|| task_unknown(task_id))?;
    let task = &seen.task;
    // A journal that cannot be opened says as little as one that is gone.
    let story = Story::read(observer.artifacts().open_journal(task_id).ok().flatten());
    let need = observer.need_of(task)?;
    let excerpt: String = task.text.lines().next().unwrap_or_default().chars().take(120).collect();
    let title = format!("{} {excerpt}", task.state.as_str());
    let first = story.milestones.items.len().saturating_sub(MILESTONES);
    let milestones = story.milestones.items.get(first..).unwrap_or_default();
    Ok(page.of(&title, "", Some(task_id), html! {
        nav.crumbs aria-label="Breadcrumb" { a href="/" { "Tasks" } " / " span.code { (task_id) } }
        h1 { (line(&excerpt)) }
        div #gone.gone hidden { "The journal of this task is no longer on disk. What this page shows is the last that was read of it." }
        div #head data-live { (task_head(&seen, &story, need.as_ref())) }
        section aria-labelledby="milestones-title" {
            h2 id="milestones-title" { "Milestones" }
            (milestone_log(milestones))
        }
        div #attempts data-live { (attempts(page, observer, task, &story)) }
        div #changes data-live { (changes(page, observer, &seen, &story)) }
        div #plan data-live { (plan(task, &story)) }
        div #rest data-live { (scouts(&story)) (budget(&seen, &story)) (warnings(&story)) (evidence(task, &story)) }
    }))
}

fn task_head(seen: &act_task::TaskSeen, story: &Story, need: Option<&Need>) -> Markup {
    let task = &seen.task;
    html! {
        @if let Some(need) = need { div.note { (need_text(need)) } }
        @if story.gone { div.gone { "The journal of this task is no longer on disk, so this page shows only what the store knows." } }
        @if story.cut { div.gone { "The journal is longer than 16 MiB; this page shows its beginning." } }
        @if story.unreadable > 0 { div.gone { (story.unreadable) " lines of the journal are no events and are left out." } }
        dl.facts {
            dt { "State" }
            dd {
                (state_mark(task.state.as_str()))
                @if let Some(reason) = &task.reason { " " (line(reason)) }
                @if seen.dry_run { " " span.soft { "(dry run)" } }
                @if seen.cancel_requested && !task.state.is_final() { " " span.warn { "was asked to end" } }
            }
            @if !task.state.is_final() {
                dt { "Now" }
                dd {
                    @let waits = waits_for(task);
                    @if !waits.is_empty() { "waits for " (waits) }
                    @else if let Some(holder) = &story.waits_for { "waits for " (line(holder)) }
                    @else { (line(story.now.as_deref().or(task.phase.as_deref()).unwrap_or("beginning"))) }
                }
            }
            dt { "Attempt" } dd { (task.attempt) " of " (task.max_attempts) @if task.replans > 0 { ", " (task.replans) " REPLAN" } }
            dt { "Repository" } dd.code { (line(task.repo.root())) }
            @if let Some(worktree) = &task.worktree { dt { "Worktree" } dd.code { (line(&worktree.path)) } }
            dt { "Time" }
            dd {
                "accepted " (at(&task.submitted_at))
                @if let Some(started) = &task.started_at { ", started " (at(started)) }
                @if let Some(finished) = &task.finished_at { ", ended " (at(finished)) }
                @else { ", " (age(task.started_at.as_deref().unwrap_or(&task.submitted_at))) " ago" }
            }
            dt { "Tokens" } dd { (count(tokens(&task.tokens))) ", cost " (cost(task.cost_usd, &task.tokens)) }
            @if let Some(evidence) = &task.evidence { dt { "Tests prove" } dd { (line(evidence)) } }
            @if let Some(report) = &story.report_path { dt { "Report" } dd.code { (line(report)) } }
        }
        @if let Some(summary) = &story.summary { details #summary { summary { "Summary" } p.words { (block(summary)) } } }
        @if !task.state.is_final() {
            form.row action={ "/tasks/" (encoded(&task.task_id)) "/cancel" } method="get" {
                button #cancel type="submit" { "Cancel this task…" }
            }
        }
    }
}

fn attempts(page: &Page, observer: &Observer, task: &Task, story: &Story) -> Markup {
    let failed = story.attempts.items.iter().rev().find(|attempt| attempt.status.is_some());
    let failed = failed.filter(|attempt| attempt.status.as_deref() == Some("FAIL"));
    html! {
        section aria-labelledby="attempts-title" {
            h2 id="attempts-title" { "Attempts" }
            @if let Some((status, failures)) = &story.baseline {
                p { "Before the first edit: " (state_mark(status)) }
                @if !failures.is_empty() { ul.plain.small.code { @for one in failures { li { (line(one)) } } } }
            }
            @if story.attempts.is_empty() { p.soft { "Nothing was verified yet." } }
            @else {
                table.stack role="table" {
                    caption.unseen { "Verifications with their steps" }
                    (stack_head(&["Attempt", "Result", "Steps", "Duration", "Run"]))
                    tbody role="rowgroup" {
                        @for attempt in &story.attempts.items { (attempt_row(attempt)) }
                    }
                }
                @if story.attempts.left_out > 0 { p.soft { "and " (story.attempts.left_out) " more" } }
            }
            @if let Some(attempt) = failed { (failure(page, observer, task, attempt)) }
        }
    }
}

fn attempt_row(attempt: &Attempt) -> Markup {
    html! {
        tr role="row" {
            th role="rowheader" scope="row" { "Attempt " (attempt.number) @if attempt.warm { " " span.soft.small { "warm" } } }
            td role="cell" {
                (state_mark(attempt.status.as_deref().unwrap_or("RUNNING")))
                @if let Some(why) = &attempt.why { " " span.small { (line(why)) } }
            }
            td role="cell" {
                ol.steps {
                    @for step in &attempt.steps.items {
                        li {
                            @match &step.ended { Some(ended) => (step_result(ended.exit_code)), None => (state_mark("RUNNING")) }
                            " " span.code { (line(&step.name)) }
                            @if let Some(ended) = &step.ended { " " span.small.soft { (duration(ended.duration_ms)) } }
                        }
                    }
                    (more(attempt.steps.left_out))
                }
            }
            td.nowrap role="cell" data-name="Duration" { @match attempt.duration_ms { Some(ms) => (duration(ms)), None => (age(&attempt.time)) } }
            td role="cell" data-name="Run" { (run_link(&attempt.run_id)) }
        }
    }
}

/// The result of a step that has ended: a state, and its exit code where that is not zero.
fn step_result(exit_code: Option<i64>) -> Markup {
    html! {
        (state_mark(if exit_code == Some(0) { "PASS" } else { "FAIL" }))
        " " span.small {
            @match exit_code { Some(0) => "", Some(code) => { "exit " (code) }, None => "no exit code" }
        }
    }
}

/// The places that failed in the last verification, and the end of the failing step's log.
fn failure(page: &Page, observer: &Observer, task: &Task, attempt: &Attempt) -> Markup {
    let places = page.memo.failures(observer, task, &attempt.run_id);
    let is_red = |step: &&crate::story::Step| {
        step.ended.as_ref().is_some_and(|ended| ended.exit_code != Some(0))
    };
    let step = attempt.steps.items.iter().rev().find(is_red).map(|step| step.name.clone());
    let run = RunId::parse(&attempt.run_id).ok();
    let tail = run.and_then(|run| piece(observer, &run, step.clone(), None).ok());
    html! {
        h3 { "What failed in attempt " (attempt.number) }
        @if !places.lines.is_empty() {
            ul.plain.lines.small.code {
                @for one in &places.lines { li { (line(one)) } }
                (more(places.more))
            }
        }
        @if let Some(tail) = &tail {
            @let text = block(&tail.log);
            @let lines: Vec<_> = text.lines().collect();
            @let first = lines.len().saturating_sub(TAIL);
            p.small.soft { "The end of the log" @if let Some(step) = &step { " of step " span.code { (line(step)) } } }
            pre.wrap #tail tabindex="0" aria-label="End of the log" { (lines.get(first..).unwrap_or_default().join("\n")) }
        }
    }
}

fn changes(page: &Page, observer: &Observer, seen: &act_task::TaskSeen, story: &Story) -> Markup {
    let task = &seen.task;
    let diff = match &story.proposed {
        Some((diff, _)) => Ok(diff.clone()),
        None if story.edits.is_empty() => Ok(String::new()),
        None => {
            let edits = story.edits.values().map(|(_, times)| times).sum();
            page.memo.difference(observer, task, edits)
        }
    };
    html! {
        section aria-labelledby="changes-title" {
            h2 id="changes-title" { "Changed files" }
            @if story.edits.is_empty() && story.proposed.is_none() { p.soft { "No file was changed yet." } }
            @if !story.edits.is_empty() {
                ul.plain.lines {
                    @for (path, (op, times)) in &story.edits {
                        li { span.code { (line(path)) } " " span.small.soft { (line(op)) @if *times > 1 { ", " (times) " edits" } } }
                    }
                }
            }
            @if let Some((_, Some(apply))) = &story.proposed { p { "To apply the proposal: " code { (line(apply)) } } }
            @match &diff {
                Ok(diff) if diff.is_empty() => "",
                Ok(diff) => details #diff open[diff.len() < 20_000] {
                    summary { "Difference" }
                    (patch(diff))
                },
                Err(failure) => p.soft { "The difference cannot be shown: " (line(&failure.message)) },
            }
        }
    }
}

/// A patch with its lines told apart by their first character, which stays, so that colour is not needed.
fn patch(diff: &str) -> Markup {
    let cut =
        (0..=MAX_PATCH.min(diff.len())).rev().find(|end| diff.is_char_boundary(*end)).unwrap_or(0);
    let (shown, rest) = diff.split_at(cut);
    let class = |line: &str| match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => {
            Some("file")
        }
        [b'+', ..] => Some("add"),
        [b'-', ..] => Some("del"),
        [b'@', ..] => Some("hunk"),
        _ => None,
    };
    html! {
        pre.patch #patch tabindex="0" aria-label="Difference" {
            @for one in shown.lines() { span class=[class(one)] { (line(one)) "\n" } }
        }
        @if !rest.is_empty() { p.soft { "The difference goes on; " code { "act diff" } " prints all of it." } }
    }
}

fn plan(task: &Task, story: &Story) -> Markup {
    let lists = [
        ("Constraints", &story.constraints),
        ("Non-goals", &story.non_goals),
        ("Boundaries", &story.boundaries),
        ("Enforced boundaries", &story.enforced),
    ];
    html! {
        section aria-labelledby="text-title" {
            h2 id="text-title" { "Text of the task" }
            p.words { (block(&task.text)) }
            @for (name, items) in lists {
                @if !items.is_empty() { h3 { (name) } ul { @for one in items { li { (line(one)) } } } }
            }
        }
        section aria-labelledby="plan-title" {
            h2 id="plan-title" { "Plan" }
            @if story.plans.is_empty() { p.soft { "There is no plan yet." } }
            @for (at, one) in story.plans.items.iter().enumerate() {
                h3 {
                    @if one.replan > 0 { "REPLAN " (one.replan) } @else if at == 0 { "First plan" } @else { "Revision" }
                    " " (clock(&one.time))
                }
                p.words { (block(&one.strategy)) }
                (goals("Criteria", &one.criteria))
                (goals("Accepted when", &one.acceptance))
            }
            @if !story.diagnoses.is_empty() {
                details #diagnoses {
                    summary { "Diagnoses and decisions (" (story.diagnoses.items.len() + story.diagnoses.left_out) ")" }
                    ol.plain.lines { @for one in &story.diagnoses.items { li { (clock(&one.time)) (block(&one.text)) } } (more(story.diagnoses.left_out)) }
                }
            }
        }
    }
}

fn goals(name: &str, items: &[String]) -> Markup {
    html! {
        @if !items.is_empty() {
            p.small.soft { (name) ":" }
            ul { @for one in items { li { (line(one)) } } }
        }
    }
}

fn scouts(story: &Story) -> Markup {
    html! {
        section aria-labelledby="scouts-title" {
            h2 id="scouts-title" { "Scouts" }
            @if story.scouts.is_empty() { p.soft { "No Scout was asked yet." } }
            @else {
                ul.plain.lines {
                    @for one in &story.scouts.items {
                        li {
                            (state_mark(match one.outcome.as_deref() { Some("ok") => "ANSWERED", Some(_) => "FAILED", None => "RUNNING" }))
                            " " b { (line(&one.name)) } ", attempt " (one.attempt)
                            @if let Some(outcome) = &one.outcome { ", " (line(outcome)) }
                            @if let Some(ms) = one.duration_ms { ", " (duration(ms)) }
                            @if !one.question.is_empty() { p.words.soft { "Asked: " (block(&one.question)) } }
                            @if !one.answer.is_empty() { p.words { (block(&one.answer)) } }
                            @if let Some(error) = &one.error { p.words.bad { (block(error)) } }
                        }
                    }
                    (more(story.scouts.left_out))
                }
            }
        }
    }
}

fn usage_table(caption: &str, usage: &BTreeMap<String, ModelUsage>) -> Markup {
    html! {
        div.wide tabindex="0" role="group" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr {
                    th scope="col" { "Role" }
                    @for name in ["Input", "of it cached", "Output"] { th.number scope="col" { (name) } }
                } }
                tbody {
                    @for (role, usage) in usage {
                        tr {
                            th scope="row" { (line(role)) }
                            @for number in [usage.input, usage.cached, usage.output] { td.number { (number) } }
                        }
                    }
                }
            }
        }
    }
}

fn budget(seen: &act_task::TaskSeen, story: &Story) -> Markup {
    let task = &seen.task;
    let usage = if task.tokens.is_empty() { &story.usage } else { &task.tokens };
    html! {
        section aria-labelledby="budget-title" {
            h2 id="budget-title" { "Budget" }
            @if let Some(most) = seen.max_tokens { p { "The task may spend " (most) " tokens." } }
            @if let Some(most) = seen.max_cost { p { "The task may cost " (most.rounded()) "." } }
            @if usage.is_empty() { p.soft { "No request was sent yet." } }
            @else {
                p { (story.requests) " requests" @if story.failed_requests > 0 { ", " (story.failed_requests) " of them failed" } ", cost " (cost(task.cost_usd, usage)) "." }
                (usage_table("Tokens by role", usage))
            }
        }
    }
}

fn warnings(story: &Story) -> Markup {
    let pairs = |items: &Items<(String, String)>, name: &str| {
        html! {
            @for (what, why) in &items.items { li { (name) " " span.code { (line(what)) } ": " (line(why)) } }
            (more(items.left_out))
        }
    };
    let is_empty = story.refused.is_empty()
        && story.denials.is_empty()
        && story.components_refused.is_empty()
        && story.consents.is_empty()
        && story.gate_inputs.is_empty();
    html! {
        section aria-labelledby="warnings-title" {
            h2 id="warnings-title" { "Warnings" }
            @if is_empty { p.soft { "There are no warnings." } }
            ul.plain.lines {
                @for path in &story.gate_inputs { li { "changes how the pipeline judges: " span.code { (line(path)) } } }
                (pairs(&story.refused, "edit refused"))
                (pairs(&story.components_refused, "component refused"))
                (pairs(&story.consents, "asked about"))
                @for (name, grant, object) in &story.denials.items {
                    li { "denied to " span.code { (line(name)) } ": " (line(grant)) " " span.code { (line(object)) } }
                }
                (more(story.denials.left_out))
            }
        }
    }
}

fn evidence(task: &Task, story: &Story) -> Markup {
    html! {
        section aria-labelledby="evidence-title" {
            h2 id="evidence-title" { "Evidence" }
            @if let Some(evidence) = &story.evidence {
                dl.facts {
                    @for (name, words) in [("red_first", "Red first"), ("old_tests", "Old tests")] {
                        @if let Some(result) = evidence[name]["result"].as_str() {
                            dt { (words) }
                            dd { (line(result)) @if let Some(reason) = evidence[name]["reason"].as_str() { ", " (line(reason)) } }
                        }
                    }
                }
            }
            @if !story.instructions.is_empty() {
                p { "Instructions that the model got: " @for path in &story.instructions.items { span.code { (line(path)) } " " } }
            }
            @if !story.checks.is_empty() {
                details #checks {
                    summary { "Commands that the model ran (" (story.checks.items.len() + story.checks.left_out) ")" }
                    ul.plain.lines { @for (command, outcome) in &story.checks.items { li { span.code { (line(command)) } " " (line(outcome)) } } (more(story.checks.left_out)) }
                }
            }
            @match task.run_ids.last() {
                Some(last) => { p { "The last run is " (run_link(last)) ". " code { "act verify-claim " (line(last)) } " repeats it." } },
                None => { p.soft { "No run was made yet." } },
            }
        }
    }
}

/// The page that asks whether a task is to be cancelled.
///
/// # Errors
///
/// There is no such task, or it has ended.
pub(crate) fn cancel(page: &Page, observer: &Observer, task_id: &str) -> Result<Markup, Failure> {
    if !TaskId::is_one(task_id) {
        return Err(task_unknown("of that name"));
    }
    let seen = observer.task(task_id)?.ok_or_else(|| task_unknown(task_id))?;
    let task = seen.task;
    if task.state.is_final() {
        let ended = format!("{task_id} has ended as {}", task.state.as_str());
        return Err(Failure::refused("nothing_to_cancel", ended));
    }
    let excerpt: String = task.text.lines().next().unwrap_or_default().chars().take(120).collect();
    Ok(page.of("Cancel a task", "", None, html! {
        nav.crumbs aria-label="Breadcrumb" { a href="/" { "Tasks" } " / " (task_link(task_id)) " / cancel" }
        h1 { "Cancel this task?" }
        p.words { (line(&excerpt)) }
        p { (state_mark(task.state.as_str())) " in " span.code { (line(task.repo.root())) } }
        p { "The task ends as CANCELLED. Its changes so far stay in the working tree, and the next waiting task starts." }
        form.row action={ "/tasks/" (encoded(task_id)) "/cancel" } method="post" {
            input type="hidden" name="form" value=(page.form);
            button.danger type="submit" { "Cancel the task" }
            a href={ "/tasks/" (encoded(task_id)) } { "Keep it running" }
        }
    }))
}

/// Returns the names of the logs that a manifest names.
pub(crate) fn files_of(manifest: &Manifest) -> Vec<String> {
    let steps = (1..).zip(&manifest.commands_executed);
    let steps = steps.map(|(number, step)| log_name(number, &step.name));
    std::iter::once(COMBINED.to_owned()).chain(steps).collect()
}

/// Returns the name of a step as its log has it: letters, digits and a few signs, so that it is safe in an address and a form.
fn log_step(number: usize, name: &str) -> String {
    let name = log_name(number, name);
    let step = name.strip_suffix(".log").and_then(|name| name.splitn(3, '-').nth(2));
    step.unwrap_or_default().to_owned()
}

/// The page of a run.
///
/// # Errors
///
/// There is no such run, or store, manifest or log cannot be read.
pub(crate) fn run(
    page: &Page,
    observer: &Observer,
    run: &RunId,
    query: &LogQuery,
) -> Result<Markup, Failure> {
    let seen = observer.run(run)?;
    if seen.record.is_none() && seen.manifest.is_none() {
        return Err(Failure::refused("run_unknown", format!("there is no run {run}"))
            .hint("`act history --all` lists the tasks with their runs"));
    }
    let task_id = seen.record.as_ref().and_then(|record| record.task_id.clone());
    let lasts = seen.record.as_ref().is_some_and(|record| record.status.is_none());
    let explained = observer.explain(run).ok();
    let manifest = seen.manifest.as_ref();
    let word = manifest.map(|manifest| manifest.status.as_str());
    let word = word.or(seen.record.as_ref().and_then(|record| record.status.as_deref()));
    Ok(page.of(&format!("{} {run}", word.unwrap_or("RUNNING")), "", task_id.as_deref(), html! {
        nav.crumbs aria-label="Breadcrumb" {
            a href="/" { "Tasks" } " / "
            @if let Some(task_id) = &task_id { (task_link(task_id)) " / " }
            span.code { (run) }
        }
        h1 { "Run " span.code { (run) } }
        div #head data-live {
            dl.facts {
                dt { "Result" }
                dd {
                    (state_mark(word.unwrap_or("RUNNING")))
                    @if let Some(reason) = manifest.and_then(|manifest| manifest.reason) { " " (line(&words(&reason))) }
                    @if seen.record.as_ref().is_some_and(|record| record.warm) { " " span.soft { "(began with a warm base)" } }
                }
                @if let Some(record) = &seen.record {
                    dt { "Time" }
                    dd { (at(&record.started_at)) @if let Some(ended) = &record.finished_at { " to " (at(ended)) } }
                }
                dt { "Checks the claim" } dd { code { "act verify-claim " (run) } }
            }
        }
        @if let Some(manifest) = manifest { (steps(run, manifest)) }
        (log(observer, run, query, manifest, lasts))
        @if let Some(manifest) = manifest { (facts(manifest, seen.manifest_sha256.as_deref(), explained.as_ref())) }
    }))
}

fn words(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn steps(run: &RunId, manifest: &Manifest) -> Markup {
    let longest = manifest.commands_executed.iter().map(|step| step.duration_ms).max().unwrap_or(0);
    html! {
        section aria-labelledby="steps-title" {
            h2 id="steps-title" { "Steps" }
            @if manifest.commands_executed.is_empty() { p.soft { "No step began." } }
            @else {
                table.stack role="table" {
                    caption.unseen { "Steps with their commands, results and logs" }
                    (stack_head(&["Step", "Result", "Command", "Duration", "Log"]))
                    tbody role="rowgroup" {
                        @for (number, step) in (1..).zip(&manifest.commands_executed) {
                            tr role="row" {
                                th role="rowheader" scope="row" { span.code { (line(&step.name)) } }
                                td role="cell" {
                                    (step_result(step.exit_code))
                                    span.small {
                                        @if step.timed_out { ", timed out" }
                                        @if step.oom { ", out of memory" }
                                        @if step.network != "off" { ", with network" }
                                    }
                                }
                                td role="cell" { code { (line(&step.command)) } }
                                td.nowrap role="cell" data-name="Duration" { (bar(step.duration_ms, longest)) " " (duration(step.duration_ms)) }
                                td role="cell" data-name="Log" {
                                    a href={ "/runs/" (run) "?step=" (encoded(&log_step(number, &step.name))) "#log" } { "show" } " "
                                    a href={ "/runs/" (run) "/files/" (encoded(&log_name(number, &step.name))) } { "save" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A bar beside a number, which says it for those who do not see the bar.
fn bar(value: u64, most: u64) -> Markup {
    let width = value.saturating_mul(158).checked_div(most).unwrap_or_default();
    html! {
        svg.plot viewBox="0 0 160 12" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect.rail x="0.5" y="1.5" width="159" height="9" {}
            rect.bar x="1" y="2" width=(width) height="8" {}
        }
    }
}

fn log(
    observer: &Observer,
    run: &RunId,
    query: &LogQuery,
    manifest: Option<&Manifest>,
    lasts: bool,
) -> Markup {
    let step = query.step.clone();
    let address = |from: u64| {
        let step =
            step.as_deref().map(|step| format!("step={}&", encoded(step))).unwrap_or_default();
        format!("/runs/{run}?{step}from={from}#log")
    };
    let piece = piece(observer, run, query.step.clone(), query.from);
    let steps = manifest.map(|manifest| &*manifest.commands_executed).unwrap_or_default();
    html! {
        section aria-labelledby="log" {
            h2 id="log" { "Log" @if let Some(step) = &query.step { " of step " span.code { (line(step)) } } }
            form.row action={ "/runs/" (run) } method="get" role="search" {
                label for="step" { "Step" }
                select #step name="step" {
                    option value="" { "all" }
                    @for (number, one) in (1..).zip(steps) {
                        @let name = log_step(number, &one.name);
                        option value=(name) selected[query.step.as_ref() == Some(&name)] { (line(&one.name)) }
                    }
                }
                label for="q" { "Search" }
                input #q name="q" type="search" value=(query.words.as_deref().unwrap_or_default()) maxlength="200";
                button type="submit" { "Show" }
            }
            @match (&piece, &query.words) {
                (Err(failure), _) => p.soft { (line(&failure.message)) },
                (Ok(_), Some(words)) => (found(observer, run, query, words)),
                (Ok(piece), None) => {
                    p.small.soft {
                        @if piece.end == 0 { "The steps have printed nothing." }
                        @else { "Bytes " (piece.from) " to " (piece.to) " of " (piece.end) }
                        @if piece.from > 0 { " · " a href=(address(piece.from.saturating_sub(256 << 10))) { "earlier" } }
                        @if piece.to < piece.end { " · " a href=(address(piece.to)) { "later" } }
                    }
                    @let follow = lasts && piece.to == piece.end;
                    @let step = query.step.as_deref().map(|step| format!("step={}&", encoded(step))).unwrap_or_default();
                    pre.wrap #text tabindex="0" aria-label="Log"
                        data-follow=[follow.then(|| format!("/api/runs/{run}/log?clean=1&{step}"))]
                        data-to=[follow.then_some(piece.to)] { (block(&piece.log)) }
                },
            }
        }
    }
}

/// The lines of a log that contain a text, whatever its case.
fn found(observer: &Observer, run: &RunId, query: &LogQuery, words: &str) -> Markup {
    use std::io::{BufRead, BufReader, Read};
    let opened = observer.artifacts().open_log(run.as_str(), query.step.as_deref());
    let wanted = words.to_lowercase();
    let (mut lines, mut count, mut cut) = (vec![], 0_usize, false);
    if let Ok(file) = opened {
        cut = file.metadata().is_ok_and(|about| about.len() > MAX_SEARCHED);
        let mut reader = BufReader::new(file.take(MAX_SEARCHED));
        let (mut bytes, mut number) = (vec![], 0_u64);
        loop {
            bytes.clear();
            // A longer line is searched in parts, each with a number of its own line.
            let read = reader.by_ref().take(1 << 20).read_until(b'\n', &mut bytes);
            if !read.is_ok_and(|read| read > 0) {
                break;
            }
            number += u64::from(bytes.ends_with(b"\n"));
            let text = String::from_utf8_lossy(&bytes);
            if text.to_lowercase().contains(&wanted) {
                count += 1;
                if lines.len() < MAX_FOUND {
                    let text: String = text.trim_end().chars().take(MAX_LINE).collect();
                    lines.push((number, text));
                }
            }
        }
    }
    html! {
        p role="status" { "Lines with “" (line(words)) "”: " (count)
            @if count > lines.len() { "; the first " (lines.len()) " are shown" }
            @if cut { "; only the first 64 MiB of the log were searched" } "." }
        @if !lines.is_empty() {
            pre.wrap #found tabindex="0" aria-label="Lines that were found" {
                @for (number, text) in &lines { (number) ": " (line(text)) "\n" }
            }
        }
    }
}

fn facts(
    manifest: &Manifest,
    sha256: Option<&str>,
    explained: Option<&act_task::Explanation>,
) -> Markup {
    let rows = [
        ("Tree", manifest.tree_digest.as_deref()),
        ("Tree after the steps", manifest.tree_digest_after.as_deref()),
        ("Tree in git", manifest.git_tree.as_deref()),
        ("Commit", manifest.commit_sha.as_deref()),
        ("Image", Some(manifest.image_digest.as_str())),
        ("Pipeline", Some(manifest.pipeline_sha256.as_str())),
        ("Manifest", sha256),
        ("Head of the audit log", manifest.audit_head.as_deref()),
        ("Warm base", manifest.base.as_deref()),
    ];
    let document = serde_json::to_string_pretty(manifest).unwrap_or_default();
    html! {
        section aria-labelledby="digests-title" {
            h2 id="digests-title" { "Digests" }
            dl.facts {
                @for (name, value) in rows { @if let Some(value) = value { dt { (name) } dd.code { (line(value)) } } }
                dt { "Engine" } dd { (line(&manifest.engine.to_string())) }
            }
            @if let Some(explained) = explained {
                p.soft { "Recorded as number " (explained.started_seq)
                    @if let Some(seq) = explained.finished_seq { " and " (seq) } " of the audit log. "
                    code { "act audit explain " (manifest.run_id) } " verifies the log and shows all inputs." }
                @if let Some(why) = &explained.disputed { div.note { "The recorded end is not trusted: " (line(why)) } }
            }
            @if !manifest.tests_weakened.is_empty() {
                h3 { "Tests that demand less" }
                ul.plain.small.code { @for one in &manifest.tests_weakened { li { (line(one)) } } }
            }
            details #manifest {
                summary { "Manifest" }
                pre.wrap tabindex="0" aria-label="Manifest" { (block(&document)) }
            }
            h3 { "Files" }
            ul.plain { @for name in files_of(manifest) { li { a.code href={ "/runs/" (manifest.run_id) "/files/" (encoded(&name)) } { (line(&name)) } } } }
        }
    }
}

/// The page of grants and denials.
///
/// # Errors
///
/// The audit log cannot be read.
pub(crate) fn audit(page: &Page, observer: &Observer) -> Result<Markup, Failure> {
    let grants = observer.grants()?;
    let denied = AuditFilter { denied: true, limit: RECORDS, ..AuditFilter::default() };
    let denials = observer.audit(&denied)?;
    Ok(page.of("Audit", "/audit", None, html! {
        h1 { "Audit" }
        section aria-labelledby="grants-title" {
            h2 id="grants-title" { "Grants in force" }
            @if grants.components.is_empty() { p.soft { "No component was loaded or approved yet." } }
            @else {
                table.stack role="table" {
                    caption.unseen { "Components with their permissions" }
                    (stack_head(&["Component", "State", "Permissions", "Since", "Digest"]))
                    tbody role="rowgroup" {
                        @for one in &grants.components {
                            tr role="row" {
                                th role="rowheader" scope="row" { span.code { (line(&one.subject.name)) } }
                                td role="cell" data-name="State" { (line(&one.state)) @if one.by_hand { " (changed by hand)" } }
                                td role="cell" data-name="Permissions" { @if one.capabilities.is_empty() { span.soft { "none" } } @else { (line(&one.capabilities.join(", "))) } }
                                td role="cell" data-name="Since" { (at(&one.since)) }
                                td role="cell" data-name="Digest" { span.code title=(line(&one.subject.sha256)) { (one.subject.sha256.chars().take(12).collect::<String>()) } }
                            }
                        }
                    }
                }
            }
            @if let Some(file) = &grants.file { div.note { "The file of grants was changed by no command of act, seen " (at(&file.seen)) ": " span.code { (line(&file.path)) } } }
        }
        section aria-labelledby="denials-title" {
            h2 id="denials-title" { "Denials" }
            @if denials.records.is_empty() { p.soft { "Nothing was denied." } }
            @else {
                @if denials.left_out > 0 { p.soft { (denials.left_out) " earlier ones are not listed; " code { "act audit list --deny" } " lists them." } }
                table.stack role="table" {
                    caption.unseen { "Denied accesses, the newest first" }
                    (stack_head(&["Record", "Time", "What", "Object", "Task"]))
                    tbody role="rowgroup" {
                        @for record in denials.records.iter().rev() {
                            tr role="row" {
                                th role="rowheader" scope="row" { (record.seq) }
                                td role="cell" { (at(&record.time)) }
                                td role="cell" data-name="What" {
                                    (line(&record.event))
                                    @if let Some(subject) = &record.subject { " " span.code { (line(&subject.name)) } }
                                    @if let Some(reason) = &record.reason { ", " (line(reason)) }
                                }
                                td role="cell" data-name="Object" { span.code { (line(record.object.as_deref().unwrap_or("–"))) } }
                                td role="cell" data-name="Task" { @if let Some(task) = &record.task { (task_link(task)) } @else { "–" } }
                            }
                        }
                    }
                }
            }
            @if denials.unreadable > 0 { div.note { (denials.unreadable) " lines of the log are no records; " code { "act audit verify" } " finds the first." } }
        }
    }))
}

/// The page of figures.
///
/// # Errors
///
/// The store cannot be read.
pub(crate) fn metrics(page: &Page, observer: &Observer) -> Result<Markup, Failure> {
    let metrics = observer.metrics()?;
    let most = metrics.tasks.values().copied().max().unwrap_or_default();
    let attempts = attempts_to_green(observer)?;
    let most_attempts = attempts.values().copied().max().unwrap_or_default();
    let timed: Vec<_> = metrics
        .scout_latency_ms
        .iter()
        .map(|(name, spread)| (name.as_str(), spread))
        .chain([("verification", &metrics.verifier_ms)])
        .filter(|(_, spread)| spread.count > 0)
        .collect();
    let longest = timed.iter().filter_map(|(_, spread)| spread.p99).max().unwrap_or_default();
    let ms = |value: Option<u64>| value.map_or("–".to_owned(), duration);
    let mean = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
    Ok(page.of("Metrics", "/metrics", None, html! {
        h1 { "Metrics" }
        p.soft { @match &metrics.since { Some(since) => { "Of all tasks since " (at(since)) }, None => "There was no task yet." } }
        section aria-labelledby="ends-title" {
            h2 id="ends-title" { "How tasks ended" }
            div.wide tabindex="0" role="group" aria-label="How tasks ended" {
                table {
                    caption.unseen { "Number of tasks by final state" }
                    thead { tr { th scope="col" { "State" } th.number scope="col" { "Tasks" } th scope="col" { "Share of the most frequent" } } }
                    tbody { @for (state, count) in &metrics.tasks { tr { th scope="row" { (state_mark(state)) } td.number { (count) } td { (bar(*count, most)) } } } }
                }
            }
        }
        section aria-labelledby="green-title" {
            h2 id="green-title" { "Attempts to green" }
            p { "Mean of verified tasks: " (mean(metrics.verify_attempts_mean)) " attempts, " (mean(metrics.replans_per_task)) " REPLANs." }
            @if !attempts.is_empty() {
                div.wide tabindex="0" role="group" aria-label="Attempts to green" {
                    table {
                        caption.unseen { "Successful tasks by number of attempts, of the newest 500 tasks" }
                        thead { tr { th.number scope="col" { "Attempts" } th.number scope="col" { "Tasks" } th scope="col" { "Share of the most frequent" } } }
                        tbody { @for (number, count) in &attempts { tr { th.number scope="row" { (number) } td.number { (count) } td { (bar(*count, most_attempts)) } } } }
                    }
                }
            }
        }
        section aria-labelledby="time-title" {
            h2 id="time-title" { "Durations" }
            @if timed.is_empty() { p.soft { "Nothing was measured yet." } }
            @else {
                div.wide tabindex="0" role="group" aria-label="Durations" {
                    table {
                        caption.unseen { "Durations: half, nine of ten, and 99 of 100 took no longer" }
                        thead { tr { th scope="col" { "What" } @for name in ["Count", "50 %", "90 %", "99 %"] { th.number scope="col" { (name) } } th scope="col" { "Median of the longest" } } }
                        tbody {
                            @for (name, spread) in &timed {
                                tr {
                                    th scope="row" { (line(name)) } td.number { (spread.count) }
                                    @for value in [spread.p50, spread.p90, spread.p99] { td.number { (ms(value)) } }
                                    td { (bar(spread.p50.unwrap_or_default(), longest)) }
                                }
                            }
                        }
                    }
                }
            }
        }
        section aria-labelledby="tokens-title" {
            h2 id="tokens-title" { "Tokens and cost" }
            @if metrics.damaged_tasks > 0 { div.note { (metrics.damaged_tasks) " tasks are not counted, because their rows in the store are damaged." } }
            @if metrics.tokens.is_empty() { p.soft { "No request was sent yet." } }
            @else {
                (usage_table("Tokens by role", &metrics.tokens))
                p { "Known cost: " (metrics.cost_usd.rounded()) @if metrics.cost_unknown_tasks > 0 { ", and the cost of " (metrics.cost_unknown_tasks) " tasks is not known" } "." }
            }
        }
    }))
}

/// The number of successful tasks by their number of attempts, of the newest tasks.
fn attempts_to_green(observer: &Observer) -> Result<BTreeMap<u32, u64>, Failure> {
    let mut counts = BTreeMap::new();
    for task in observer.history(500)?.tasks {
        if task.state == TaskState::Success {
            *counts.entry(task.attempt).or_default() += 1;
        }
    }
    Ok(counts)
}
