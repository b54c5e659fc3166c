//! The valid key that is closest to an unknown one.

/// Length in characters from which a key is no slip any more; it bounds the work for a hostile key.
const MAX_KEY: usize = 64;

/// Returns the closest valid key, or `None` when there are no valid keys. A key that contains the other counts as one
/// slip; otherwise the edit distance counts. The first of equals wins.
pub(super) fn nearest<'a>(key: &str, valid: &[&'a str]) -> Option<&'a str> {
    let key: String = key.to_lowercase().chars().take(MAX_KEY).collect();
    valid.iter().copied().min_by_key(|candidate| {
        let part = !key.is_empty() && (candidate.contains(&key) || key.contains(candidate));
        if part { 1 } else { strsim::levenshtein(&key, candidate) }
    })
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_slips_parts_and_other_case() {
        let keys = ["container_image", "steps", "include", "network"];
        for (key, meant) in [
            ("setps", "steps"),
            ("image", "container_image"),
            ("Steps", "steps"),
            ("netwrok", "network"),
        ] {
            assert_eq!(nearest(key, &keys), Some(meant));
        }
        assert_eq!(nearest("x", &[]), None);
    }
}
