//! The valid key that was probably meant.

/// A key that contains the other counts as one slip; otherwise the number of letters to change, add or
/// drop. The first of equals wins.
pub(super) fn nearest<'a>(key: &str, valid: &[&'a str]) -> Option<&'a str> {
    let key = key.to_lowercase();
    valid.iter().copied().min_by_key(|candidate| {
        let part = !key.is_empty() && (candidate.contains(&key) || key.contains(candidate));
        if part { 1 } else { distance(&key, candidate) }
    })
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    // Longer keys are no slips; this keeps a hostile one from costing anything.
    for (i, from) in a.chars().take(64).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
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
