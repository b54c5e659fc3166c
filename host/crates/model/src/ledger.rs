//! The tokens that a task has spent, by role, and its limit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{ModelError, ModelErrorKind, ModelUsage};

/// Sums of every request of a task, failed ones included. Clones share the same sums and the same limit.
#[derive(Debug, Clone)]
pub struct TokenLedger {
    sums: Arc<Mutex<BTreeMap<String, ModelUsage>>>,
    /// `u64::MAX` means no limit.
    limit: Arc<AtomicU64>,
}

impl Default for TokenLedger {
    fn default() -> Self {
        Self::limited(None)
    }
}

impl TokenLedger {
    /// Returns the ledger of a task that may spend `limit` tokens, input and output of all roles together. `None` sets no
    /// limit.
    pub fn limited(limit: Option<u64>) -> Self {
        let ledger = Self { sums: Arc::default(), limit: Arc::default() };
        ledger.set_limit(limit);
        ledger
    }

    /// Replaces the limit, for a task whose configuration changed while it waited.
    pub fn set_limit(&self, limit: Option<u64>) {
        self.limit.store(limit.unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Returns how many tokens the task may spend; `None` without a limit.
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::SeqCst)).filter(|limit| *limit != u64::MAX)
    }

    /// Adds the tokens of one request.
    pub fn add(&self, role: &str, usage: ModelUsage) {
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        *sums.entry(role.to_owned()).or_default() += usage;
    }

    /// Returns the sums by role.
    pub fn by_role(&self) -> BTreeMap<String, ModelUsage> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the sum over all roles.
    pub fn total(&self) -> ModelUsage {
        self.by_role().into_values().fold(ModelUsage::default(), |mut sum, usage| {
            sum += usage;
            sum
        })
    }

    /// Refuses a request once the limit is reached; called before each request, repetitions included. A request in
    /// progress is not cut off, so the last request of each open conversation may exceed the limit.
    pub(super) fn allow(&self) -> Result<(), ModelError> {
        match self.limit() {
            Some(limit) if self.spent() >= limit => {
                let spent = self.spent();
                let message = format!(
                    "the token budget of the task is spent: {spent} of {limit} tokens; raise it with --max-tokens"
                );
                Err(ModelError::new(ModelErrorKind::Budget, message))
            }
            _ => Ok(()),
        }
    }

    fn spent(&self) -> u64 {
        let total = self.total();
        total.input.saturating_add(total.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: ModelUsage = ModelUsage { input: 60, cached: 50, output: 20 };

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
        ledger.add("editor", ModelUsage { input: u64::MAX, cached: 0, output: u64::MAX });
        assert!(ledger.allow().is_ok());
    }
}
