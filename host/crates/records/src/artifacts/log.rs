//! Reading the logs of a run back: by run id and step name, never by path.

use act_core::{RunId, RunIdError};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::artifact_dir::ArtifactDir;
use super::run_dir::safe_name;
use act_fs::Dir;

/// The end of a log as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogText {
    pub text: String,
    /// Bytes of the log before `text`.
    pub left_out: u64,
}

impl LogText {
    /// The last `limit` bytes of an open log.
    pub fn end_of(file: &mut File, limit: u64) -> io::Result<Self> {
        let left_out = file.metadata()?.len().saturating_sub(limit);
        file.seek(SeekFrom::Start(left_out))?;
        let mut bytes = vec![];
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(Self { text: String::from_utf8_lossy(&bytes).into_owned(), left_out })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(transparent)]
    RunId(#[from] RunIdError),
    #[error("no run {run_id} in the artifact directory; old runs are deleted")]
    NoRun { run_id: RunId },
    #[error("run {run_id} has no step {step:?}; {}", there_are(steps))]
    NoStep { run_id: RunId, step: String, steps: String },
    #[error("the log of run {run_id} cannot be read; look at the run's directory")]
    Unreadable { run_id: RunId, source: io::Error },
}

fn there_are(steps: &str) -> String {
    match steps {
        "" => "no step of it began".to_owned(),
        steps => format!("its steps are: {steps}"),
    }
}

impl ArtifactDir {
    /// The combined log, or the log of one step, opened for reading.
    pub fn open_log(&self, run_id: &str, step: Option<&str>) -> Result<File, LogError> {
        let run_id = RunId::parse(run_id)?;
        let unreadable =
            |source: io::Error| LogError::Unreadable { run_id: run_id.clone(), source };
        let run = match self.run(&run_id) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LogError::NoRun { run_id });
            }
            other => other.map_err(unreadable)?,
        };
        let logs = run.subdirectory("logs").map_err(unreadable)?;
        let name = match step {
            None => "combined.log".to_owned(),
            Some(step) => {
                let names = step_logs(&logs).map_err(unreadable)?;
                match find(&names, step) {
                    Some(name) => name,
                    None => {
                        let steps =
                            names.iter().filter_map(|name| step_of(name)).collect::<Vec<_>>();
                        let step = step.chars().take(100).collect();
                        return Err(LogError::NoStep { run_id, step, steps: steps.join(", ") });
                    }
                }
            }
        };
        logs.file(name).map_err(unreadable)
    }

    /// The last `limit` bytes of a log as valid UTF-8.
    pub fn read_log(
        &self,
        run_id: &str,
        step: Option<&str>,
        limit: u64,
    ) -> Result<LogText, LogError> {
        let mut file = self.open_log(run_id, step)?;
        let run_id = RunId::parse(run_id)?;
        LogText::end_of(&mut file, limit).map_err(|source| LogError::Unreadable { run_id, source })
    }
}

fn step_logs(logs: &Dir) -> io::Result<Vec<String>> {
    let mut names = vec![];
    for name in logs.names(usize::MAX)? {
        if let Ok(name) = name.into_string()
            && step_of(&name).is_some()
        {
            names.push(name);
        }
    }
    // By number: step 100 comes after step 99.
    names.sort_by_key(|name| number_and_name(name).map(|(number, _)| number));
    Ok(names)
}

/// Of several steps with one name the last that ran.
fn find(names: &[String], step: &str) -> Option<String> {
    let step = safe_name(step);
    names.iter().rfind(|name| step_of(name) == Some(&step)).cloned()
}

fn step_of(log: &str) -> Option<&str> {
    number_and_name(log).map(|(_, name)| name)
}

fn number_and_name(log: &str) -> Option<(u32, &str)> {
    let (number, name) = log.strip_prefix("step-")?.strip_suffix(".log")?.split_once('-')?;
    Some((number.parse().ok()?, name))
}

impl From<LogError> for act_core::Failure {
    fn from(error: LogError) -> Self {
        let (code, hint) = match &error {
            LogError::RunId(_) => {
                ("run_id_invalid", "`act history` lists tasks with their runs; their ids work, too")
            }
            LogError::NoRun { .. } => ("run_unknown", "`act history` lists tasks with their runs"),
            LogError::NoStep { .. } => {
                ("step_unknown", "name one of its steps, or leave --step out for the whole log")
            }
            LogError::Unreadable { .. } => ("run_unreadable", "look at the run's directory"),
        };
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        Self::refused(code, format!("{error}{}", cause.unwrap_or_default())).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn run() -> (tempfile::TempDir, ArtifactDir, super::super::RunDir) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("repo")).unwrap();
        let artifacts = ArtifactDir::open(&dir.path().join("a"), &dir.path().join("repo")).unwrap();
        let run = artifacts.create_run(act_core::clock::now()).unwrap();
        run.create_log("combined.log").unwrap().write_all(b"one\ntwo\xff\n").unwrap();
        run.create_log("step-01-unit_test.log").unwrap().write_all(b"one\n").unwrap();
        run.create_log("step-02-unit_test.log").unwrap().write_all(b"two\n").unwrap();
        (dir, artifacts, run)
    }

    // ARTIFACT-9
    #[test]
    fn reads_the_end_of_a_log_by_run_and_step() {
        let (_dir, artifacts, run) = run();
        let read = |step, limit| artifacts.read_log(run.id().as_str(), step, limit).unwrap();
        let all = LogText { text: "one\ntwo\u{fffd}\n".into(), left_out: 0 };
        assert_eq!(read(None, 1000), all);
        assert_eq!(read(None, 5), LogText { text: "two\u{fffd}\n".into(), left_out: 4 });
        assert_eq!(read(Some("unit test"), 100).text, "two\n");
        run.create_log("step-100-unit_test.log").unwrap().write_all(b"last\n").unwrap();
        run.create_log("step-99-unit_test.log").unwrap();
        assert_eq!(read(Some("unit test"), 100).text, "last\n");
    }

    // security line 126
    #[test]
    fn no_name_leads_out_of_the_logs() {
        let (dir, artifacts, run) = run();
        let id = run.id().as_str();
        assert!(matches!(artifacts.read_log("../../etc/passwd", None, 9), Err(LogError::RunId(_))));
        for step in ["../../manifest.json", "", "combined", "../step-01-unit_test"] {
            let error = artifacts.read_log(id, Some(step), 9).unwrap_err().to_string();
            assert!(error.contains("unit_test"), "{error}");
        }
        let absent = "run_20260101_000000_aaaaaa";
        assert!(matches!(artifacts.read_log(absent, None, 9), Err(LogError::NoRun { .. })));

        let secret = dir.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        std::os::unix::fs::symlink(&secret, run.path().join("logs/step-03-x.log")).unwrap();
        assert!(matches!(artifacts.read_log(id, Some("x"), 9), Err(LogError::Unreadable { .. })));
        let fifo = run.path().join("logs/step-04-f.log");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(matches!(artifacts.read_log(id, Some("f"), 9), Err(LogError::Unreadable { .. })));
    }

    #[test]
    fn host_files_are_created_new_and_never_through_a_link() {
        let (dir, _artifacts, run) = run();
        assert!(run.create_log("combined.log").is_err());
        let outside = dir.path().join("outside");
        std::os::unix::fs::symlink(&outside, run.path().join("logs/step-05-y.log")).unwrap();
        assert!(run.create_log("step-05-y.log").is_err());
        assert!(!outside.exists());
    }
}
