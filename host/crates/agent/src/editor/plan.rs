//! Plans and strategies. The first plan is answered with the Scouts' reports; a plan after a REPLAN must differ from all
//! earlier ones. Snapshots are written after plans.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::evidence::listed;
use super::prompt::{self, ResumeContext};
use super::scouts::{Decision, requery};
use super::tools::Answer;
use super::verify::{Baseline, REPLAN_AFTER, last_failure};
use super::{AfterConversation, OrEnd, Phase, Session, TaskResult};
use crate::context::{EditorState, Replan, Snapshot, SnapshotKind, Strategy, VerifiedRun};
use crate::scout::Question;
use act_core::event::{EventKind, Milestone};
use act_core::reason;
use act_core::verification::Status;

/// A plan of the model, as `plan` takes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub(super) criteria: Vec<String>,
    pub(super) acceptance: Vec<String>,
    #[serde(default)]
    pub(super) non_goals: Vec<String>,
    pub(super) strategy: String,
    /// What earlier attempts have shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) learned: Option<String>,
    /// What the model takes for granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) assumptions: Vec<String>,
    /// Goals of earlier plans that no longer hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) drop: Vec<Dropped>,
    #[serde(default)]
    pub(super) questions: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) decisions: Vec<Decision>,
}

/// A goal of the model's own that it took back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dropped {
    pub criterion: String,
    pub reason: String,
}

/// The goals of all plans of a task. A later plan adds to them; it removes only those that it drops with a reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlanGoals {
    pub criteria: Vec<String>,
    pub acceptance: Vec<String>,
    pub non_goals: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
    /// What the plans say that attempts have shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned: Vec<String>,
}

/// Goals that the plans of one task may have, in all their lists together: far more than a person checks. They are part of
/// every later conversation.
const MOST_GOALS: usize = 200;

impl PlanGoals {
    /// Adds the goals of a plan, then removes those that it drops. A goal that a later plan states again is one again.
    pub(super) fn add(&mut self, plan: &Plan) {
        for (all, new) in [
            (&mut self.criteria, &plan.criteria),
            (&mut self.acceptance, &plan.acceptance),
            (&mut self.non_goals, &plan.non_goals),
            (&mut self.assumptions, &plan.assumptions),
        ] {
            self.dropped.retain(|dropped| !new.iter().any(|item| same(item, &dropped.criterion)));
            let fresh: Vec<_> = new.iter().filter(|item| !all.contains(item)).cloned().collect();
            all.extend(fresh);
        }
        let learned = plan.learned.as_deref().map(str::trim).filter(|text| !text.is_empty());
        if let Some(learned) =
            learned.filter(|text| !self.learned.iter().any(|known| known == text))
        {
            self.learned.push(learned.to_owned());
        }
        for dropped in &plan.drop {
            for all in [
                &mut self.criteria,
                &mut self.acceptance,
                &mut self.non_goals,
                &mut self.assumptions,
            ] {
                all.retain(|item| !same(item, &dropped.criterion));
            }
            self.dropped.push(dropped.clone());
        }
    }

    /// Returns why a plan cannot be added to these goals, or `None` when it can. `users`: the user's constraints, non-goals
    /// and boundaries.
    fn refusal(&self, plan: &Plan, users: &[&[String]]) -> Option<String> {
        let lists = [&self.criteria, &self.acceptance, &self.non_goals, &self.assumptions];
        let new = [&plan.criteria, &plan.acceptance, &plan.non_goals, &plan.assumptions];
        let count = lists.iter().chain(&new).map(|list| list.len()).sum::<usize>();
        if count + self.dropped.len() + self.learned.len() + plan.drop.len() > MOST_GOALS {
            return Some(format!("the plans have more than {MOST_GOALS} criteria and other items"));
        }
        plan.drop.iter().find_map(|Dropped { criterion, reason }| {
            let own = lists.iter().copied().flatten().any(|item| same(item, criterion));
            if users.iter().copied().flatten().any(|item| same(item, criterion)) {
                Some(format!("drop: {criterion:?} is the user's and cannot be dropped"))
            } else if !own {
                Some(format!("drop: no plan has {criterion:?}; repeat the words of the criterion"))
            } else if reason.trim().is_empty() {
                Some(format!("drop: {criterion:?} needs a reason"))
            } else {
                None
            }
        })
    }

    /// One line for each goal that was dropped, with its reason.
    pub(super) fn dropped_lines(&self) -> Vec<String> {
        let line = |Dropped { criterion, reason }: &Dropped| {
            format!("{criterion} Dropped because: {reason}")
        };
        self.dropped.iter().map(line).collect()
    }
}

/// Returns whether two goals have the same words, whatever their case and punctuation.
fn same(one: &str, other: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    words(one) == words(other)
}

impl Session<'_> {
    /// Gives up the strategy in force and returns the first message of the next conversation.
    pub(super) fn start_replan(&mut self, number: u32, attempt: u32) -> String {
        self.milestone(Milestone::Replanning);
        let unrelated = self.failures_of_no_change();
        self.plans.give_up();
        self.phase = Phase::Planning;
        self.replanning = Some((number, attempt));
        self.history.restart();
        self.criteria_shown = false;
        self.review.restart();
        let failing = self.plans.attempts().last().map_or(0, |run| run.failures.count());
        let earlier = match self.failing_at_replan.replace(failing) {
            Some(earlier) => Some((earlier, "at the last REPLAN")),
            None => {
                let first = self.plans.attempts().next().map(|run| run.failures.count());
                first.map(|first| (first, "at first"))
            }
        };
        let fewer = earlier.filter(|(earlier, _)| failing > 0 && failing < *earlier);
        self.refining = fewer.is_some() || unrelated.is_some();
        let fewer = fewer.map(|(earlier, when)| (failing, earlier, when));
        let instruction = format!(
            "{}{}{}",
            prompt::replanning(fewer),
            prompt::not_disproved(unrelated.as_ref()),
            self.whom_to_ask()
        );
        self.message_with_facts(self.plans.ended(), &instruction)
    }

    /// The first message of another conversation, with the facts of this task.
    pub(super) fn message_with_facts(&self, tried: &[TriedPlan], instruction: &str) -> String {
        let runs = self.plans.runs();
        let context = ResumeContext {
            goals: self.plans.goals(),
            reports: &self.reports,
            asked_after: &self.asked_after,
            sent: &self.reports_sent,
            decisions: &self.decisions.lines(),
            baseline: self.baseline.as_ref().map(Baseline::for_model),
            tried,
            changed: &self.whole_difference(),
            checked: &self.checked.iter().cloned().collect::<Vec<_>>(),
            weakened: &listed(&self.weakened()),
            failure: &runs.last().map(last_failure).unwrap_or_default(),
        };
        prompt::resuming(&self.briefing(), &context, instruction)
    }

    /// Replaces a conversation that is longer than the model accepts by a fresh one with the same plan, once between two
    /// verifications. Without a plan the fresh one would only become as long again.
    pub(super) fn restart_conversation(&mut self, full: TaskResult) -> OrEnd<AfterConversation> {
        if self.plans.in_force().is_none() || self.phase == Phase::Planning {
            return Err(full.into());
        }
        let message = full.summary.as_deref().unwrap_or_default();
        let runs = self.plans.runs().len();
        if self.verifications_at_restart.replace(runs) == Some(runs) {
            let why = format!("{message}; a fresh conversation became too long as well");
            return Err(TaskResult { summary: Some(why), ..full }.into());
        }
        let text = format!("{message}; a fresh conversation goes on with the same plan");
        self.editor.events.emit(EventKind::Diagnosis { text });
        let tried = self.plans.so_far();
        self.review.restart();
        let green = self.phase == Phase::Closing;
        let going_on = prompt::going_on(green);
        Ok(AfterConversation::Conversation(self.message_with_facts(&tried, &going_on)))
    }

    /// Takes a plan of the model, asks the Scouts that it needs, and writes the snapshot that is due. A plan beside the first
    /// one and those of REPLANs is a revision, for which no snapshot is written.
    pub(super) async fn adopt(&mut self, plan: Plan) -> OrEnd<Answer> {
        if plan.strategy.trim().is_empty() {
            return Ok(Answer::refusal("bad_arguments", "strategy is empty"));
        }
        let request = &self.editor.input.request;
        let users = [request.constraints(), request.non_goals(), request.boundaries()];
        if let Some(message) = self.plans.goals().refusal(&plan, &users) {
            return Ok(Answer::refusal("bad_arguments", &message));
        }
        let first = self.strategies.all().is_empty();
        let goes_on = self.replanning.is_none() && self.plans.goes_on_with(&plan.strategy);
        let repeat = match self.replanning {
            // Fewer tests fail than before, so the strategy was not wrong as a whole.
            Some(_) if self.refining && plan.says_what_was_wrong() => Repeat::No,
            Some(_) => self.history.judge_strategy(&plan.strategy),
            None if !goes_on && self.plans.gave_up(&plan.strategy) => {
                self.history.judge_strategy(&plan.strategy)
            }
            None => Repeat::No,
        };
        let mark = match repeat {
            Repeat::No => "",
            Repeat::Refused => {
                let message = "this strategy failed before; plan a different one";
                return Ok(Answer::refusal("same_strategy", message));
            }
            Repeat::Accepted => " (repeats an earlier strategy)",
        };
        let unknown: Vec<_> =
            plan.questions.keys().filter(|name| !self.has_scout(name)).cloned().collect();
        if !unknown.is_empty() {
            let message =
                format!("questions: no Scout {}; there are {}", unknown.join(", "), self.scouts());
            return Ok(Answer::refusal("bad_arguments", &message));
        }

        let asked = self.asked_for(&plan);
        let mut answer = "the plan is accepted".to_owned();
        let mut requery: Vec<String> = asked.iter().map(|(name, _)| name.clone()).collect();
        if !asked.is_empty() {
            answer.push_str(&self.ask(&asked).await?.concat());
            self.asked.push(format!("asked {}", requery.join(" and ")));
        }
        if first || !asked.is_empty() {
            self.annotate(&mut answer, first);
        }
        // Only a REPLAN asks again.
        if self.replanning.is_none() {
            requery.clear();
        }

        self.decisions.decide(&plan.decisions);
        // A call that revises only the goals, decides a conflict or asks a Scout leaves the strategy as it is.
        if goes_on {
            self.plans.revise(&plan);
        } else {
            let strategy = Strategy {
                text: format!("{}{mark}", plan.strategy.trim()),
                replan: self
                    .replanning
                    .map(|(number, after_attempt)| Replan { number, after_attempt }),
                requery: requery.clone(),
                changed: vec![],
            };
            self.strategies.begin(strategy, self.changes());
            self.history.add_strategy(&plan.strategy);
            self.plans.adopt(plan);
        }
        // The model has just written its goals, or a conversation has just begun with them.
        self.criteria_shown = true;
        self.write_due_snapshot()?;
        let goals = self.plans.goals();
        self.editor.events.emit(EventKind::Plan {
            strategy: self.strategies.in_force().to_owned(),
            criteria: goals.criteria.clone(),
            acceptance: goals.acceptance.clone(),
        });
        match self.replanning.take() {
            Some((number, attempt)) => {
                let strategy = self.strategies.in_force().to_owned();
                self.editor.events.emit(EventKind::Replan { number, attempt, strategy, requery });
                self.snapshot_when_decided(SnapshotKind::Replan { number })?;
            }
            None if first => self.snapshot_when_decided(SnapshotKind::TaskStart)?,
            None => {}
        }
        if self.phase == Phase::Planning {
            self.phase = Phase::Working;
            self.milestone(Milestone::Implementing);
        }
        Ok(Answer::ok(answer))
    }

    /// The sentence of a REPLAN that names the Scouts who know about the kind of the last failures.
    fn whom_to_ask(&self) -> String {
        let names = requery(self.plans.attempts().rev().take(REPLAN_AFTER as usize));
        match names.is_empty() {
            true => String::new(),
            false => format!(
                " The failures are of a kind that {} knows about: put a question in `questions`; the last log \
                 goes along.",
                names.join(" or ")
            ),
        }
    }

    /// The questions that a plan puts to Scouts, in the order of the Scouts.
    fn asked_for(&self, plan: &Plan) -> Vec<(String, Question)> {
        let names = self.editor.scouts.iter().map(|scout| scout.name());
        let asked = names.filter_map(|name| Some((name, plan.questions.get(name)?)));
        asked.map(|(name, text)| (name.to_owned(), self.question(Some(text)))).collect()
    }

    /// Writes a snapshot; a dry run writes none.
    pub(super) fn snapshot(&self, kind: SnapshotKind) -> OrEnd<()> {
        let Some(notes) = &self.editor.notes else { return Ok(()) };
        let strategies = self.strategies.all().iter().enumerate();
        let mut decisions: Vec<String> =
            strategies.map(|(at, one)| format!("strategy {}: {}", at + 1, one.text)).collect();
        decisions.extend(self.asked.iter().cloned());
        decisions.extend(self.decisions.lines());
        let goals = self.plans.goals();
        decisions.extend(goals.assumptions.iter().map(|text| format!("assumed: {text}")));
        decisions.extend(goals.dropped_lines());
        let state = EditorState {
            hypothesis: self.strategies.in_force().to_owned(),
            files_modified: self.changed_files(),
            verify_attempts: self.plans.runs().to_vec(),
            decisions,
        };
        let snapshot = Snapshot {
            taken: act_core::clock::now(),
            kind,
            task_id: &self.editor.input.task_id,
            task_text: self.editor.input.request.text(),
            scouts: &self.reports,
            editor: &state,
        };
        let written = notes.snapshot(&snapshot).map_err(|error| {
            let why = format!("the context snapshot could not be written: {error}");
            TaskResult::infra(reason::UNKNOWN, why)
        })?;
        let milestone = kind.word().to_owned();
        self.editor.events.emit(EventKind::Snapshot { path: written.path, milestone });
        if let Some(text) = written.not_linked {
            self.editor.events.emit(EventKind::Diagnosis { text });
        }
        Ok(())
    }
}

impl Plan {
    /// Returns whether the plan says what an earlier one got wrong: at least three words.
    fn says_what_was_wrong(&self) -> bool {
        self.learned.as_deref().is_some_and(|text| text.split_whitespace().count() >= 3)
    }
}

/// A plan with the runs under it, for the conversation after a REPLAN.
#[derive(Debug, Clone)]
pub(super) struct TriedPlan {
    pub plan: Plan,
    pub runs: Vec<VerifiedRun>,
}

/// The plans of a task, with the runs under each.
#[derive(Debug, Default)]
pub(super) struct Plans {
    in_force: Option<Plan>,
    goals: PlanGoals,
    /// The plans before the one in force, in the order of time.
    ended: Vec<TriedPlan>,
    /// Every verification of the task, green ones too.
    runs: Vec<VerifiedRun>,
    /// The number of runs before the plan in force.
    earlier: usize,
    /// The number of ended plans before the last REPLAN.
    given_up: usize,
}

impl Plans {
    pub(super) fn in_force(&self) -> Option<&Plan> {
        self.in_force.as_ref()
    }

    /// The goals of all plans of the task.
    pub(super) fn goals(&self) -> &PlanGoals {
        &self.goals
    }

    pub(super) fn runs(&self) -> &[VerifiedRun] {
        &self.runs
    }

    /// The runs that failed.
    pub(super) fn attempts(&self) -> impl DoubleEndedIterator<Item = &VerifiedRun> + Clone {
        self.runs.iter().filter(|run| run.status == Status::Fail)
    }

    /// Restores the plan of a proposal with the goals of its task.
    pub(super) fn restore(&mut self, plan: Plan, goals: PlanGoals) {
        (self.in_force, self.goals) = (Some(plan), goals);
    }

    /// Returns whether a strategy is the one in force, in the same words or nearly so.
    fn goes_on_with(&self, strategy: &str) -> bool {
        let words = key_words(strategy);
        self.in_force.as_ref().is_some_and(|plan| similar(&key_words(&plan.strategy), &words))
    }

    /// Returns whether a REPLAN gave this strategy up.
    fn gave_up(&self, strategy: &str) -> bool {
        let words = key_words(strategy);
        let given_up = self.ended.iter().take(self.given_up);
        given_up.map(|one| key_words(&one.plan.strategy)).any(|known| similar(&known, &words))
    }

    /// Takes the goals of a plan whose strategy is the one in force. The runs under it stay its runs.
    fn revise(&mut self, plan: &Plan) {
        self.goals.add(plan);
    }

    /// Takes a plan. A replaced plan is listed with the runs under it, if there were any.
    pub(super) fn adopt(&mut self, plan: Plan) {
        self.goals.add(&plan);
        if let Some(replaced) = self.in_force.replace(plan)
            && self.earlier < self.runs.len()
        {
            self.close(replaced);
        }
    }

    /// Ends the plan in force, before a REPLAN.
    pub(super) fn give_up(&mut self) {
        if let Some(plan) = self.in_force.take() {
            self.close(plan);
        }
        self.given_up = self.ended.len();
    }

    pub(super) fn add_run(&mut self, run: VerifiedRun) {
        self.runs.push(run);
    }

    pub(super) fn ended(&self) -> &[TriedPlan] {
        &self.ended
    }

    /// All plans, the one in force with its runs so far.
    pub(super) fn so_far(&self) -> Vec<TriedPlan> {
        let in_force = self.in_force.clone().map(|plan| self.with_runs(plan));
        self.ended.iter().cloned().chain(in_force).collect()
    }

    fn close(&mut self, plan: Plan) {
        let tried = self.with_runs(plan);
        self.earlier = self.runs.len();
        self.ended.push(tried);
    }

    fn with_runs(&self, plan: Plan) -> TriedPlan {
        let runs = self.runs.get(self.earlier..).unwrap_or_default().to_vec();
        TriedPlan { plan, runs }
    }
}

/// Refusals after a REPLAN before a repeated strategy is accepted and marked. A model that insists would otherwise
/// never get on.
const REFUSALS: u32 = 2;

/// The words of every strategy.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    strategies: Vec<BTreeSet<String>>,
    /// Refusals since the last REPLAN.
    refused: u32,
}

/// The decision about a strategy that may have been tried before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    No,
    Refused,
    /// Known, but refused often enough.
    Accepted,
}

/// Words without a meaning for a strategy.
const FILLING: [&str; 21] = [
    "a", "an", "and", "by", "for", "i", "in", "is", "it", "now", "of", "on", "so", "that", "the",
    "then", "this", "to", "we", "will", "with",
];

/// The words of a strategy that matter, in lower case and without order. Case, punctuation and filling make no new strategy.
fn key_words(strategy: &str) -> BTreeSet<String> {
    let words = strategy.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: BTreeSet<_> = words.map(str::to_lowercase).collect();
    let matter: BTreeSet<_> =
        words.iter().filter(|word| !FILLING.contains(&word.as_str())).cloned().collect();
    if matter.is_empty() { words } else { matter }
}

/// Returns whether two strategies share nine words of ten and differ in no number and no negation.
fn similar(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    const TURNS: [&str; 7] = ["no", "not", "never", "without", "instead", "only", "don"];
    let weighs = |word: &String| {
        TURNS.contains(&word.as_str()) || word.bytes().any(|byte| byte.is_ascii_digit())
    };
    let differ: Vec<_> = one.symmetric_difference(other).collect();
    let common = one.intersection(other).count();
    differ.len() * 10 <= common * 2 && !differ.into_iter().any(weighs)
}

impl History {
    pub(super) fn add_strategy(&mut self, strategy: &str) {
        self.strategies.push(key_words(strategy));
    }

    /// Resets the refusals, at a REPLAN.
    pub(super) fn restart(&mut self) {
        self.refused = 0;
    }

    pub(super) fn judge_strategy(&mut self, strategy: &str) -> Repeat {
        let known = self.knows_strategy(strategy);
        repeat(known, &mut self.refused)
    }

    fn knows_strategy(&self, strategy: &str) -> bool {
        let key_words = key_words(strategy);
        self.strategies.iter().any(|known| similar(known, &key_words))
    }
}

fn repeat(known: bool, refused: &mut u32) -> Repeat {
    if !known {
        return Repeat::No;
    }
    if *refused >= REFUSALS {
        return Repeat::Accepted;
    }
    *refused += 1;
    Repeat::Refused
}

/// The changes of a task at one moment: each changed path with the digest of its content.
pub(super) type Changes = BTreeMap<String, Option<String>>;

/// The strategies of a task as snapshots and reports show them.
#[derive(Debug, Default)]
pub(super) struct Strategies {
    all: Vec<Strategy>,
    /// The changes when the strategy in force began.
    began: Changes,
}

impl Strategies {
    pub(super) fn begin(&mut self, strategy: Strategy, changes: Changes) {
        self.all = self.so_far(&changes);
        self.all.push(strategy);
        self.began = changes;
    }

    pub(super) fn all(&self) -> &[Strategy] {
        &self.all
    }

    /// The text of the strategy in force; empty before the first.
    pub(super) fn in_force(&self) -> &str {
        self.all.last().map_or("", |last| &last.text)
    }

    /// All strategies, the one in force with the files that it has changed so far.
    pub(super) fn so_far(&self, changes: &Changes) -> Vec<Strategy> {
        let mut strategies = self.all.clone();
        if let Some(last) = strategies.last_mut() {
            last.changed = changed(&self.began, changes);
        }
        strategies
    }
}

fn changed(began: &Changes, now: &Changes) -> Vec<String> {
    let undone = began.keys().filter(|path| !now.contains_key(*path));
    let made = now.iter().filter(|(path, sha256)| began.get(*path) != Some(sha256));
    let mut paths: Vec<_> = undone.chain(made.map(|(path, _)| path)).cloned().collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    mod goals {
        use super::super::*;

        /// EDITOR-12
        #[test]
        fn goals_of_an_earlier_plan_are_kept() {
            let plan = |criteria: &[&str], non_goals: &[&str]| Plan {
                criteria: texts(criteria),
                non_goals: texts(non_goals),
                ..Plan::default()
            };
            let mut goals = PlanGoals::default();
            goals.add(&plan(&["adds", "fast"], &["speed"]));
            goals.add(&plan(&["fast", "small"], &[]));
            assert_eq!(goals.criteria, ["adds", "fast", "small"]);
            assert_eq!(goals.non_goals, ["speed"]);
        }

        fn texts(items: &[&str]) -> Vec<String> {
            items.iter().map(|item| (*item).to_owned()).collect()
        }

        fn dropping(criterion: &str, reason: &str) -> Plan {
            let (criterion, reason) = (criterion.to_owned(), reason.to_owned());
            Plan { drop: vec![Dropped { criterion, reason }], ..Plan::default() }
        }

        /// EDITOR-62
        #[test]
        fn a_goal_of_the_models_own_is_dropped_with_a_reason_and_can_be_stated_again() {
            let plan = Plan { criteria: texts(&["It adds.", "fast"]), ..Plan::default() };
            let mut goals = PlanGoals::default();
            goals.add(&plan);
            goals.add(&dropping("it adds", "it multiplies"));
            assert_eq!(goals.criteria, ["fast"]);
            assert_eq!(goals.dropped_lines(), ["it adds Dropped because: it multiplies"]);
            goals.add(&plan);
            assert_eq!(goals.criteria, ["fast", "It adds."]);
            assert!(goals.dropped.is_empty());
        }

        /// EDITOR-62
        #[test]
        fn the_users_goals_and_unknown_ones_cannot_be_dropped() {
            let mut goals = PlanGoals::default();
            goals.add(&Plan {
                criteria: texts(&["Keep the public API", "adds"]),
                ..Plan::default()
            });
            let constraints = texts(&["keep the public API!"]);
            let refused = |criterion, reason| {
                goals.refusal(&dropping(criterion, reason), &[constraints.as_slice()])
            };
            assert!(refused("Keep the public API", "x").unwrap().contains("is the user's"));
            assert!(refused("other", "x").unwrap().contains("no plan has"));
            assert!(refused("adds", " ").unwrap().contains("needs a reason"));
            assert_eq!(refused("adds", "x"), None);
            let many = Plan { criteria: vec!["x".to_owned(); MOST_GOALS], ..Plan::default() };
            assert!(goals.refusal(&many, &[]).unwrap().contains("more than 200"));
        }
    }

    mod plans {
        use super::super::*;
        fn plan(strategy: &str, criterion: &str) -> Plan {
            Plan { criteria: vec![criterion.into()], strategy: strategy.into(), ..Plan::default() }
        }

        fn attempt(number: u32) -> VerifiedRun {
            VerifiedRun::failed(number, "test", "no")
        }

        fn told(of: &[TriedPlan]) -> Vec<(&str, Vec<u32>)> {
            let numbers = |one: &TriedPlan| one.runs.iter().map(|run| run.attempt).collect();
            of.iter().map(|one| (one.plan.strategy.as_str(), numbers(one))).collect()
        }

        // EDITOR-26
        #[test]
        fn each_plan_keeps_the_attempts_that_failed_under_it() {
            let mut plans = Plans::default();
            plans.adopt(plan("never tried", "a"));
            plans.adopt(plan("one", "b"));
            plans.add_run(attempt(1));
            plans.adopt(plan("changed in the middle", "a"));
            plans.add_run(attempt(2));
            plans.add_run(attempt(3));
            assert_eq!(
                told(&plans.so_far()),
                [("one", vec![1]), ("changed in the middle", vec![2, 3])]
            );
            assert!(!plans.gave_up("one"), "a revision replaced it");
            plans.give_up();
            assert!(plans.gave_up("One.") && plans.gave_up("changed in the middle"));
            assert!(plans.in_force().is_none());
            plans.adopt(plan("two", "c"));
            let tried = [("one", vec![1]), ("changed in the middle", vec![2, 3])];
            assert_eq!(told(plans.ended()), tried);
            assert_eq!(told(&plans.so_far())[2], ("two", vec![]));
            assert_eq!(plans.attempts().count(), 3);
            assert_eq!(plans.goals().criteria, ["a", "b", "c"]);
        }

        /// EDITOR-62
        #[test]
        fn a_revision_of_the_goals_keeps_strategy_and_attempts() {
            let mut plans = Plans::default();
            plans.adopt(plan("flip the sign in add", "a"));
            plans.add_run(attempt(1));
            assert!(plans.goes_on_with("Flip the sign in `add`."));
            assert!(!plans.goes_on_with("flip the sign in add and sub"));
            plans.revise(&plan("Flip the sign in `add`.", "b"));
            plans.add_run(attempt(2));
            assert_eq!(told(&plans.so_far()), [("flip the sign in add", vec![1, 2])]);
            assert_eq!(plans.goals().criteria, ["a", "b"]);
        }
    }

    mod strategy {
        use super::super::*;
        #[test]
        fn a_strategy_changed_what_differs_from_the_tree_it_began_with() {
            let tree = |files: &[(&str, &str)]| {
                let files = files.iter();
                files.map(|(path, sha256)| (path.to_string(), Some(sha256.to_string()))).collect()
            };
            let began = tree(&[("again", "1"), ("kept", "1"), ("undone", "1")]);
            let now = tree(&[("again", "2"), ("kept", "1"), ("new", "1")]);
            assert_eq!(changed(&began, &now), ["again", "new", "undone"]);
            assert!(changed(&now, &now).is_empty());
        }

        #[test]
        fn other_punctuation_is_no_other_strategy() {
            let mut history = History::default();
            history.add_strategy("Fix the sign in add()");
            assert!(history.knows_strategy("fix  the sign in `add`."));
            assert!(!history.knows_strategy("Rewrite add()"));
            assert!(!history.knows_strategy("Fix the test of add()"));
        }

        /// EDITOR-27
        #[test]
        fn the_same_words_in_another_order_are_no_other_strategy() {
            let mut history = History::default();
            history.add_strategy(
                "Change the parser in src/date.rs to accept leap centuries, then extend the tests of the date module",
            );
            let same = "Then extend the tests of the date module, and change the parser in src/date.rs so that it \
                        will accept leap centuries now";
            assert!(history.knows_strategy(same));
            assert!(history.knows_strategy(&same.replace("extend", "widen")), "one word in ten");
            for other in [
                "Change the lexer in src/token.rs to accept leap centuries, then extend the tests of the token module",
                &same.replace("accept", "not accept"),
                &same.replace("src/date.rs", "src/date2.rs"),
                "Accept leap centuries",
            ] {
                assert!(!history.knows_strategy(other), "{other}");
            }
        }

        /// EDITOR-27
        #[test]
        fn what_is_repeated_is_refused_twice_after_each_replan() {
            let mut history = History::default();
            history.add_strategy("Fix the sign");
            for _ in 0..2 {
                let judged: Vec<_> =
                    (0..4).map(|_| history.judge_strategy("fix the sign")).collect();
                use Repeat::{Accepted, Refused};
                assert_eq!(judged, [Refused, Refused, Accepted, Accepted]);
                assert_eq!(history.judge_strategy("Fix the test"), Repeat::No);
                history.restart();
            }
        }
    }
}
