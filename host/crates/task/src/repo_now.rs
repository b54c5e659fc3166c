//! The repository of a task, as documents name it.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use act_workspace::{head_commit, uncommitted};

/// Maximum wait for the comparison with the last commit. Most take some milliseconds.
const LONGEST_COMPARISON: Duration = Duration::from_secs(2);

/// A repository with the state that it had at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(inline))]
pub struct RepoNow {
    /// Path of the repository's root.
    pub path: String,
    /// The commit; null without one.
    pub head: Option<String>,
    /// True if files differ from the commit; null where that is not known.
    pub dirty: Option<bool>,
}

impl RepoNow {
    /// Returns the repository at `root` as it is now.
    pub(super) async fn at(root: &Path) -> Self {
        let path = root.display().to_string();
        let root = root.to_owned();
        let compared = tokio::task::spawn_blocking(move || {
            let head = head_commit(&root);
            let dirty = head.as_ref().and_then(|_| Some(!uncommitted(&root).ok()?.is_empty()));
            (head, dirty)
        });
        let found = tokio::time::timeout(LONGEST_COMPARISON, compared).await;
        let (head, dirty) = found.ok().and_then(Result::ok).unwrap_or_default();
        Self { path, head, dirty }
    }
}
