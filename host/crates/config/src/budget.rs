//! How many tokens a task may spend (pure).

/// Tokens of a task, input (cached included) and output of all roles, where nobody says otherwise. About ten times what
/// a large task of the benchmarks took: it stops a task that goes in circles, not one that works.
pub const DEFAULT_MAX_TOKENS: u64 = 10_000_000;

/// Returns how many tokens a task may spend, or `None` without a limit.
///
/// `agent_yaml` comes with a clone, so it can only lower the limit. `user` is the limit of the user's own
/// configuration. `flag` is what the person typed for this task: it replaces both. `policy` is the administrator's
/// limit, which nothing exceeds.
///
/// ```
/// use act_config::{DEFAULT_MAX_TOKENS, token_budget};
/// assert_eq!(token_budget(None, Some(5), Some(DEFAULT_MAX_TOKENS), None), Some(5));
/// assert_eq!(token_budget(Some(9), Some(5), None, Some(7)), Some(7));
/// ```
pub fn token_budget(
    flag: Option<u64>,
    agent_yaml: Option<u64>,
    user: Option<u64>,
    policy: Option<u64>,
) -> Option<u64> {
    let smallest = |limits: &[Option<u64>]| limits.iter().copied().flatten().min();
    match flag {
        Some(flag) => smallest(&[Some(flag), policy]),
        None => smallest(&[agent_yaml, user, policy]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CONFIG-16
    #[test]
    fn a_repository_only_lowers_the_budget_and_nothing_exceeds_the_policy() {
        let default = Some(DEFAULT_MAX_TOKENS);
        assert_eq!(token_budget(None, None, default, None), default);
        assert_eq!(token_budget(None, Some(3), default, None), Some(3));
        assert_eq!(token_budget(None, Some(u64::MAX), default, None), default);
        assert_eq!(token_budget(None, Some(3), default, Some(2)), Some(2));
        assert_eq!(token_budget(None, None, None, None), None);
        assert_eq!(token_budget(Some(u64::MAX - 1), Some(3), default, None), Some(u64::MAX - 1));
        assert_eq!(token_budget(Some(9), Some(3), default, Some(2)), Some(2));
        assert_eq!(token_budget(Some(1), None, default, Some(2)), Some(1));
    }
}
