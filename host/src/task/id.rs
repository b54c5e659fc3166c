//! Names of tasks: short enough to type, random so that processes need not agree.

use rand::RngExt;

const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// `t-` and six of `[a-z0-9]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TaskId(String);

impl TaskId {
    pub fn random() -> Self {
        let mut rng = rand::rng();
        let random =
            (0..6).filter_map(|_| ALPHABET.get(rng.random_range(..ALPHABET.len())).copied());
        Self(std::iter::once("t-".chars()).flatten().chain(random.map(char::from)).collect())
    }

    /// Whether a text is a task's name.
    pub fn is_one(text: &str) -> bool {
        let random = text.strip_prefix("t-").unwrap_or_default();
        random.len() == 6 && random.bytes().all(|byte| ALPHABET.contains(&byte))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_t_and_six_letters_or_digits() {
        // TASK-9
        for _ in 0..200 {
            let id = TaskId::random();
            let random = id.as_str().strip_prefix("t-").unwrap();
            assert_eq!(random.len(), 6);
            assert!(random.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{id}");
        }
        assert_ne!(TaskId::random(), TaskId::random());
        assert!(TaskId::is_one(TaskId::random().as_str()));
        // security line 126
        for text in ["", "t-", "t-abc12", "t-abc1234", "t-ABC123", "t-abc/..", "abc123", "t-äbc1"]
        {
            assert!(!TaskId::is_one(text), "{text}");
        }
    }
}
