//! The plans of a task, the one in force and those that failed with their attempts. Pure.

use super::attempt::Attempt;
use super::tools::{Goals, Plan};

/// A plan with its attempts that failed, for the conversation after a REPLAN.
#[derive(Debug, Clone)]
pub(super) struct FailedStrategy {
    pub plan: Plan,
    pub attempts: Vec<Attempt>,
}

#[derive(Debug, Default)]
pub(super) struct Plans {
    in_force: Option<Plan>,
    goals: Goals,
    /// In the order of time.
    failed: Vec<FailedStrategy>,
    /// Every attempt of the task that failed.
    attempts: Vec<Attempt>,
    /// How many of them came before the plan in force.
    earlier: usize,
}

impl Plans {
    pub(super) fn in_force(&self) -> Option<&Plan> {
        self.in_force.as_ref()
    }

    /// What all plans of the task wanted.
    pub(super) fn goals(&self) -> &Goals {
        &self.goals
    }

    pub(super) fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// The plan of a proposal, with all that its task wanted.
    pub(super) fn take_up(&mut self, plan: Plan, goals: Goals) {
        (self.in_force, self.goals) = (Some(plan), goals);
    }

    /// A plan that was replaced before anything failed under it is not worth telling.
    pub(super) fn adopt(&mut self, plan: Plan) {
        self.goals.keep(&plan);
        if let Some(replaced) = self.in_force.replace(plan)
            && self.earlier < self.attempts.len()
        {
            self.close(replaced);
        }
    }

    pub(super) fn give_up(&mut self) {
        if let Some(plan) = self.in_force.take() {
            self.close(plan);
        }
    }

    pub(super) fn fail(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
    }

    pub(super) fn failed(&self) -> &[FailedStrategy] {
        &self.failed
    }

    /// Every one, the one in force with the attempts that failed so far.
    pub(super) fn so_far(&self) -> Vec<FailedStrategy> {
        let in_force = self.in_force.clone().map(|plan| self.with_attempts(plan));
        self.failed.iter().cloned().chain(in_force).collect()
    }

    fn close(&mut self, plan: Plan) {
        let failed = self.with_attempts(plan);
        self.earlier = self.attempts.len();
        self.failed.push(failed);
    }

    fn with_attempts(&self, plan: Plan) -> FailedStrategy {
        let attempts = self.attempts.get(self.earlier..).unwrap_or_default().to_vec();
        FailedStrategy { plan, attempts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(strategy: &str, criterion: &str) -> Plan {
        Plan {
            criteria: vec![criterion.into()],
            acceptance: vec![],
            non_goals: vec![],
            strategy: strategy.into(),
            questions: Default::default(),
            decisions: vec![],
        }
    }

    fn attempt(number: u32) -> Attempt {
        Attempt {
            number,
            run_id: String::new(),
            strategy: 1,
            step: None,
            exit_code: None,
            reason: "step_failed",
            first_failing_line: String::new(),
            failing_lines: vec![],
        }
    }

    fn told(of: &[FailedStrategy]) -> Vec<(&str, Vec<u32>)> {
        let numbers = |one: &FailedStrategy| one.attempts.iter().map(|one| one.number).collect();
        of.iter().map(|one| (one.plan.strategy.as_str(), numbers(one))).collect()
    }

    // EDITOR-26
    #[test]
    fn each_plan_keeps_the_attempts_that_failed_under_it() {
        let mut plans = Plans::default();
        plans.adopt(plan("never tried", "a"));
        plans.adopt(plan("one", "b"));
        plans.fail(attempt(1));
        plans.adopt(plan("changed in the middle", "a"));
        plans.fail(attempt(2));
        plans.fail(attempt(3));
        assert_eq!(
            told(&plans.so_far()),
            [("one", vec![1]), ("changed in the middle", vec![2, 3])]
        );
        plans.give_up();
        assert!(plans.in_force().is_none());
        plans.adopt(plan("two", "c"));
        let tried = [("one", vec![1]), ("changed in the middle", vec![2, 3])];
        assert_eq!(told(plans.failed()), tried);
        assert_eq!(told(&plans.so_far())[2], ("two", vec![]));
        assert_eq!(plans.attempts().len(), 3);
        assert_eq!(plans.goals().criteria, ["a", "b", "c"]);
    }
}
