//! Tokens spent, by role.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::ModelUsage;

/// Sums of every request of a task, failed ones included as far as the provider said what they cost.
/// Clones share the same sums.
#[derive(Debug, Clone, Default)]
pub struct TokenLedger {
    sums: Arc<Mutex<BTreeMap<String, ModelUsage>>>,
}

impl TokenLedger {
    pub fn add(&self, role: &str, usage: ModelUsage) {
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        *sums.entry(role.to_owned()).or_default() += usage;
    }

    pub fn by_role(&self) -> BTreeMap<String, ModelUsage> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn total(&self) -> ModelUsage {
        self.by_role().into_values().fold(ModelUsage::default(), |mut sum, usage| {
            sum += usage;
            sum
        })
    }
}
