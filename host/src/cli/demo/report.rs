//! What the demo shows at the end: the difference, the runs, and where everything is.

use std::path::Path;

use similar::TextDiff;

/// One run as its manifest tells it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) run_id: String,
    pub(super) status: String,
}

/// What git would show, without git.
pub(super) fn difference(name: &str, before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    diff.unified_diff().header(&format!("a/{name}"), &format!("b/{name}")).to_string()
}

/// All runs below `artifacts`, oldest first; a run id begins with its time. What cannot be read is no run.
pub(super) fn runs(artifacts: &Path) -> Vec<Run> {
    let Ok(directory) = std::fs::read_dir(artifacts.join("runs")) else { return vec![] };
    let mut runs: Vec<_> = directory
        .filter_map(|entry| {
            let manifest = std::fs::read(entry.ok()?.path().join("manifest.json")).ok()?;
            let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
            let text = |name: &str| manifest.get(name)?.as_str().map(str::to_owned);
            Some((
                text("timestamp_start")?,
                Run { run_id: text("run_id")?, status: text("status")? },
            ))
        })
        .collect();
    // Runs of one second have no order of their own here; a failure came before what ended the task.
    runs.sort_by(|(a_start, a), (b_start, b)| (a_start, &a.status).cmp(&(b_start, &b.status)));
    runs.into_iter().map(|(_, run)| run).collect()
}

/// The last words; the green run ends them.
pub(super) fn closing(runs: &[Run], place: &Path) -> Option<String> {
    let green = runs.iter().rfind(|run| run.status == "PASS")?;
    let attempts: Vec<_> = runs
        .iter()
        .zip(1..)
        .map(|(run, attempt)| format!("  attempt {attempt}: {:4}  {}", run.status, run.run_id))
        .collect();
    Some(format!(
        "Verification\n{}\n\n\
         The model was scripted; Scouts, file tools, container and checks were not. With a real one:\n  \
         export AGENT_LLM_BASE_URL=http://127.0.0.1:11434/v1 AGENT_LLM_MODEL=NAME   (any Chat Completions \
         server)\n  act run \"what you want done\"                    (in a repository with an agent.yaml)\n\n\
         Repository  {}\nSnapshots   {}\nLogs        {}\nVerified by {}\n",
        attempts.join("\n"),
        place.join("repository").display(),
        place.join("repository/agent").display(),
        place.join("artifacts/runs").join(&green.run_id).join("logs").display(),
        green.run_id,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(run_id: &str, status: &str) -> Run {
        Run { run_id: run_id.into(), status: status.into() }
    }

    #[test]
    fn a_difference_looks_like_that_of_git() {
        assert_eq!(
            difference("x", "a\nb\nc\n", "a\nB\nc\n"),
            "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
        );
    }

    #[test]
    fn the_last_line_names_the_green_run() {
        let runs = [run("run_1", "FAIL"), run("run_2", "PASS")];
        let text = closing(&runs, Path::new("/tmp/x")).unwrap();
        assert!(text.contains("  attempt 1: FAIL  run_1\n  attempt 2: PASS  run_2\n"), "{text}");
        assert!(text.ends_with("\nVerified by run_2\n"), "{text}");
        assert_eq!(closing(&runs[..1], Path::new("/tmp/x")), None);
    }

    #[test]
    fn runs_are_read_from_their_manifests_in_order() {
        let artifacts = tempfile::tempdir().unwrap();
        let manifests = [
            ("run_b", "2026-11-21T10:00:02Z", "PASS"),
            ("run_c", "2026-11-21T10:00:02Z", "FAIL"),
            ("run_d", "2026-11-21T10:00:01Z", "FAIL"),
        ];
        for (run_id, start, status) in manifests {
            let directory = artifacts.path().join("runs").join(run_id);
            std::fs::create_dir_all(&directory).unwrap();
            let manifest =
                serde_json::json!({"run_id": run_id, "timestamp_start": start, "status": status});
            std::fs::write(directory.join("manifest.json"), manifest.to_string()).unwrap();
        }
        std::fs::create_dir(artifacts.path().join("runs/unfinished")).unwrap();
        assert_eq!(
            runs(artifacts.path()),
            [run("run_d", "FAIL"), run("run_c", "FAIL"), run("run_b", "PASS")]
        );
        assert_eq!(runs(Path::new("/nonexistent")), []);
    }
}
