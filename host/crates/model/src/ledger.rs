//! The tokens that a task has spent, by role, what they cost, and the limits of both.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{ModelError, ModelErrorKind, ModelUsage, Price};
use act_core::Usd;

/// What a task may spend, and the price of its model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    /// Tokens of all roles together, input and output; `None` sets no limit.
    pub max_tokens: Option<u64>,
    /// The cost of all requests together; `None` sets no limit.
    pub max_cost: Option<Usd>,
    /// `None` where the price of the model is not known.
    pub price: Option<Price>,
}

/// Sums of every request of a task, failed ones included. Clones share the same sums and the same budget.
#[derive(Debug, Clone, Default)]
pub struct TokenLedger(Arc<Mutex<Account>>);

#[derive(Debug)]
struct Account {
    budget: Budget,
    tokens: BTreeMap<String, ModelUsage>,
    /// `None` as soon as one request has a cost that is not known.
    cost: Option<Usd>,
}

impl Default for Account {
    fn default() -> Self {
        // A task that has sent no request has cost nothing, whatever its model costs.
        let (budget, tokens) = (Budget::default(), BTreeMap::new());
        Self { budget, tokens, cost: Some(Usd::ZERO) }
    }
}

impl TokenLedger {
    /// Returns the ledger of a task with this budget.
    pub fn with(budget: Budget) -> Self {
        let ledger = Self::default();
        ledger.set_budget(budget);
        ledger
    }

    /// Returns the ledger of a task that may spend `limit` tokens, with a model whose price is not known.
    pub fn limited(limit: Option<u64>) -> Self {
        Self::with(Budget { max_tokens: limit, ..Budget::default() })
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the budget, for a task whose configuration changed while it waited.
    pub fn set_budget(&self, budget: Budget) {
        self.account().budget = budget;
    }

    /// Returns what the task may spend.
    pub fn budget(&self) -> Budget {
        self.account().budget
    }

    /// Adds the tokens of one request, and returns what they cost, or `None` where that is not known.
    pub fn add(&self, role: &str, usage: ModelUsage) -> Option<Usd> {
        let mut account = self.account();
        *account.tokens.entry(role.to_owned()).or_default() += usage;
        let cost = match account.budget.price {
            Some(price) => Some(price.cost(&usage)),
            // A request that never reached the model costs nothing.
            None => (usage == ModelUsage::default()).then_some(Usd::ZERO),
        };
        account.cost = account.cost.zip(cost).map(|(mut sum, cost)| {
            sum += cost;
            sum
        });
        cost
    }

    /// Returns the sums by role.
    pub fn by_role(&self) -> BTreeMap<String, ModelUsage> {
        self.account().tokens.clone()
    }

    /// Returns what all requests cost, or `None` where that is not known.
    pub fn cost(&self) -> Option<Usd> {
        self.account().cost
    }

    /// Returns the sum over all roles.
    pub fn total(&self) -> ModelUsage {
        self.account().total()
    }

    /// Returns whether the cost has reached its limit, or a limit is set and the cost is not known.
    pub fn is_cost_spent(&self) -> bool {
        self.account().is_cost_spent()
    }

    /// Refuses a request once a limit is reached; called before each request, repetitions included. A request in progress is
    /// not cut off, so the last request of each open conversation may exceed the limit.
    pub(super) fn allow(&self) -> Result<(), ModelError> {
        let account = self.account();
        let refused = |message| Err(ModelError::new(ModelErrorKind::Budget, message));
        let spent = account.total();
        let spent = spent.input.saturating_add(spent.output);
        match account.budget {
            Budget { max_tokens: Some(limit), .. } if spent >= limit => refused(format!(
                "the token budget of the task is spent: {spent} of {limit} tokens; raise it with --max-tokens"
            )),
            Budget { max_cost: Some(limit), .. } if account.is_cost_spent() => {
                let cost = account.cost.filter(|_| account.budget.price.is_some());
                let spent = cost.map_or("an unknown sum".to_owned(), |cost| format!("${cost}"));
                refused(format!(
                    "the cost budget of the task is spent: {spent} of ${limit}; raise it with --max-cost"
                ))
            }
            _ => Ok(()),
        }
    }
}

impl Account {
    fn total(&self) -> ModelUsage {
        self.tokens.values().fold(ModelUsage::default(), |mut sum, usage| {
            sum += *usage;
            sum
        })
    }

    fn is_cost_spent(&self) -> bool {
        let Budget { max_cost: Some(limit), price, .. } = self.budget else { return false };
        // Tasks with an unknown price are refused before they begin; nothing is sent here either.
        price.is_none() || self.cost.is_none_or(|cost| cost >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rates;

    const USAGE: ModelUsage = ModelUsage { input: 60, cached: 50, cache_write: 0, output: 20 };

    #[test]
    fn a_budget_counts_input_and_output_of_all_roles() {
        let ledger = TokenLedger::limited(Some(160));
        ledger.add("editor", USAGE);
        assert!(ledger.allow().is_ok());
        ledger.clone().add("scout-a", USAGE);
        let error = ledger.allow().unwrap_err();
        assert_eq!((error.kind, error.is_retryable()), (ModelErrorKind::Budget, false));
        assert!(error.message.contains("160 of 160"), "{}", error.message);
    }

    #[test]
    fn without_a_limit_nothing_is_ever_spent() {
        let ledger = TokenLedger::default();
        let usage = ModelUsage { input: u64::MAX, output: u64::MAX, ..ModelUsage::default() };
        ledger.add("editor", usage);
        assert!(ledger.allow().is_ok());
    }

    fn price() -> Price {
        let [input, cached_input, cache_write, output] =
            ["2", "0.5", "2.5", "10"].map(|text| Usd::parse(text).unwrap());
        let rates = Rates { input, cached_input, cache_write, output };
        Price { rates, long_prompt: None }
    }

    // MODEL-53, MODEL-54
    #[test]
    fn a_limit_of_cost_counts_all_roles_and_ends_like_that_of_tokens() {
        // 10 · $2 + 50 · $0.50 + 20 · $10, each of a million tokens: $0.000245
        let max_cost = Usd::parse("0.00049");
        let ledger = TokenLedger::with(Budget { max_cost, price: Some(price()), max_tokens: None });
        assert_eq!(ledger.add("editor", USAGE), Usd::parse("0.000245"));
        assert!(ledger.allow().is_ok() && !ledger.is_cost_spent());
        ledger.clone().add("scout-a", USAGE);
        assert_eq!(ledger.cost(), max_cost);
        let error = ledger.allow().unwrap_err();
        assert_eq!((error.kind, error.is_retryable()), (ModelErrorKind::Budget, false));
        assert!(error.message.contains("$0.00049 of $0.00049"), "{}", error.message);
        assert!(ledger.is_cost_spent());
    }

    // MODEL-53
    #[test]
    fn an_unknown_price_makes_the_cost_unknown_and_never_zero() {
        let ledger = TokenLedger::default();
        assert_eq!(ledger.cost(), Some(Usd::ZERO), "no request, no cost");
        assert_eq!(ledger.add("editor", ModelUsage::default()), Some(Usd::ZERO));
        assert_eq!(ledger.add("editor", USAGE), None);
        assert_eq!(ledger.cost(), None);
        // A price that becomes known later does not make an earlier request known.
        ledger.set_budget(Budget { price: Some(price()), ..Budget::default() });
        assert!(ledger.add("editor", USAGE).is_some());
        assert_eq!(ledger.cost(), None);
    }

    // MODEL-54
    #[test]
    fn with_a_limit_and_no_price_no_request_is_allowed() {
        let max_cost = Usd::parse("5");
        let ledger = TokenLedger::with(Budget { max_cost, ..Budget::default() });
        assert_eq!(ledger.allow().unwrap_err().kind, ModelErrorKind::Budget);
    }
}
