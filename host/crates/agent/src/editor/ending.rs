//! How a task can end without success, and the stable word for it.

use act_model::{Stop, Turn};
use act_workspace::RootMoved;

/// Characters of a model's last words that are shown.
const LAST_WORDS: usize = 300;

/// Why the task ended without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// Twelve attempts without a green one.
    HardStop,
    /// The model stopped acting; how, in words.
    ModelIdle { how: String },
    /// The tokens that the task may spend are spent.
    Budget,
    /// The conversation is longer than the model takes, and a fresh one was as well; in the server's words.
    ContextFull { said: String },
    /// The machine failed: a stable code and what was seen.
    Infra { code: String, diagnosis: String },
}

impl Ending {
    pub(super) fn infra(code: &str, diagnosis: impl Into<String>) -> Self {
        Self::Infra { code: code.to_owned(), diagnosis: diagnosis.into() }
    }

    /// What is edited and what would be judged are two directories.
    pub(super) fn moved(diagnosis: String) -> Self {
        Self::infra(RootMoved::CODE, format!("{diagnosis}; {}", RootMoved::HINT))
    }

    /// After turns without a tool call, of which this is the last.
    pub(super) fn idle(last: &Turn) -> Self {
        let what = match last.stop {
            Stop::Refused => {
                "the provider or the model refused to go on (a refusal or a content filter); say the task \
                 differently, or take another model with AGENT_LLM_MODEL"
            }
            Stop::Length => {
                "each turn of the model ended at its output limit before a tool call was complete; ask for \
                 less, or take a model that may write more"
            }
            Stop::Tools => "the model called tools and never a plan",
            Stop::Done if last.text.trim().is_empty() => {
                "the model answered with nothing, again and again; `act doctor --model` shows whether it \
                 calls tools"
            }
            Stop::Done => {
                "the model talked and called no tool; `act doctor --model` shows whether it does at all"
            }
        };
        let words = last.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let cut: String = words.chars().take(LAST_WORDS).collect();
        let mark = if cut.len() < words.len() { "…" } else { "" };
        let said =
            if cut.is_empty() { String::new() } else { format!(". Its last words: {cut}{mark}") };
        Self::ModelIdle { how: format!("{what}{said}") }
    }

    /// In words for people, where the word alone does not say what to do.
    pub(super) fn explanation(&self) -> Option<&str> {
        match self {
            Self::HardStop => None,
            Self::ModelIdle { how } => Some(how),
            Self::Budget => Some(
                "the task has spent its token budget; raise it with --max-tokens (`limits.max_tokens` in agent.yaml and policy.toml can only lower it), or split the task",
            ),
            Self::ContextFull { said: text } | Self::Infra { diagnosis: text, .. } => Some(text),
        }
    }

    /// The `reason` of the finished task.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::HardStop => "hard_stop",
            Self::ModelIdle { .. } => "model_idle",
            Self::Budget => "budget",
            Self::ContextFull { .. } => "context_full",
            Self::Infra { code, .. } => code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_model::ModelUsage;

    /// EDITOR-7, security line 153
    #[test]
    fn an_idle_model_is_told_by_how_it_stopped_and_its_last_words() {
        let idle = |stop, text: &str| {
            let turn =
                Turn { text: text.into(), calls: vec![], stop, usage: ModelUsage::default() };
            Ending::idle(&turn).explanation().unwrap().to_owned()
        };
        assert!(idle(Stop::Refused, "I will\nnot").contains("refused to go on"));
        assert!(idle(Stop::Refused, "I will\nnot").ends_with(" Its last words: I will not"));
        assert!(idle(Stop::Length, "so").contains("output limit"));
        assert!(idle(Stop::Done, " ").contains("answered with nothing"));
        assert!(!idle(Stop::Done, " ").contains("last words"));
        let long = idle(Stop::Done, &"word ".repeat(1000));
        assert!(long.len() < 600 && long.ends_with('…'), "{long}");
    }
}
