//! Runs the real program: a repository, a scripted model, a command line, and then assertions on the whole outcome. Every
//! test has its own home, artifacts and repository; the program sees nothing of the caller's.

#![allow(dead_code, unused_imports, reason = "each test crate uses another part")]

pub(crate) mod acp;
mod audit_log;
pub(crate) mod components;
mod done;
pub(crate) mod json;
pub(crate) mod mcp;
mod process;
pub(crate) mod proposals;
pub(crate) mod script;
pub(crate) mod tool_answers;
pub(crate) mod tree;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use act_testing::{Script, ScriptedServer, Wire};
use tempfile::TempDir;

pub(crate) use audit_log::sealed;
pub(crate) use done::Done;
// Each test target has a module `engine` of its own: one with Docker, or one without.
pub(crate) use crate::engine::*;
pub(crate) use process::Running;

/// A key that may appear only in the header of a request.
pub(crate) const CANARY: &str = "sk-canary-0123456789";

/// A step that prints `it has begun` and waits for [`Act::tell_step`].
pub(crate) const UNTIL_TOLD: &str =
    "printf 'it %s begun\\n' has; while [ ! -e /artifacts/db/go ]; do sleep 0.05; done";

/// Sets up one test and starts the program; panics if that fails. A clone shares directories and model, for tests of
/// several processes.
#[derive(Clone)]
pub(crate) struct Act {
    place: Arc<TempDir>,
    environment: Vec<(OsString, OsString)>,
    stdin: Vec<u8>,
    answer: Option<(&'static str, Vec<u8>)>,
    directory: PathBuf,
    model: Option<Arc<ScriptedServer>>,
}

impl Act {
    /// Creates an empty repository with a `.git`, no model and the engine that the tests were started with.
    pub(crate) fn new() -> Self {
        let place = tempfile::Builder::new().prefix("act-test-").tempdir().unwrap();
        for directory in ["home", "config", "tmp", "repo/.git/objects", "repo/.git/refs/heads"] {
            fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        fs::write(place.path().join("repo/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(
            place.path().join("repo/.git/config"),
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
        )
        .unwrap();
        let directory = place.path().join("repo");
        let place = Arc::new(place);
        let mut act = Self {
            environment: vec![],
            stdin: vec![],
            answer: None,
            directory,
            model: None,
            place,
        };
        let environment = [("PATH", std::env::var_os("PATH")), ("DOCKER_HOST", engine_address())];
        for (name, value) in environment {
            act.environment.extend(value.map(|value| (name.into(), value)));
        }
        let root = act.place.path().to_owned();
        // Compiled components are the same for every story.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        fs::create_dir_all(&cache).unwrap();
        act.env("HOME", root.join("home"))
            .env("XDG_CONFIG_HOME", root.join("config"))
            .env("XDG_CACHE_HOME", cache)
            .env("TMPDIR", root.join("tmp"))
            .env("AGENT_ARTIFACT_DIR", root.join("artifacts"))
    }

    /// Writes a file of the repository and creates its directories.
    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.repo().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn files(self, files: &[(&str, &str)]) -> Self {
        files.iter().fold(self, |act, (path, content)| act.file(path, content))
    }

    /// Writes an `agent.yaml` with this image and these steps, each a name and a command.
    pub(crate) fn pipeline(self, image: &str, steps: &[(&str, &str)]) -> Self {
        let steps: Vec<_> = steps
            .iter()
            .map(|(name, command)| serde_json::json!({"name": name, "command": command}))
            .collect();
        // JSON is YAML.
        let yaml = serde_json::json!({"verification": {"container_image": image, "steps": steps}});
        self.file("agent.yaml", yaml.to_string())
    }

    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let name = name.into();
        self.environment.retain(|(known, _)| *known != name);
        self.environment.push((name, value.into()));
        self
    }

    /// Selects a model at this address; by default there is none.
    pub(crate) fn model(self, base_url: &str) -> Self {
        self.env("AGENT_LLM_BASE_URL", base_url).env("AGENT_LLM_MODEL", "scripted")
    }

    /// Starts a model that follows the script; [`Done::requests`] returns the requests to it.
    pub(crate) fn script(self, yaml: &str) -> Self {
        self.script_over(Wire::ChatCompletions, yaml)
    }

    /// Starts a scripted model on this wire, selected by environment variables as by a user.
    pub(crate) fn script_over(mut self, wire: Wire, yaml: &str) -> Self {
        let script = Script::from_yaml(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
        let model = ScriptedServer::start(script).unwrap();
        let (base_url, anthropic) = (model.base_url(), model.anthropic_base_url());
        self.model = Some(Arc::new(model));
        match wire {
            Wire::ChatCompletions => self.model(&base_url),
            Wire::Messages => {
                self.env("ANTHROPIC_API_KEY", CANARY).env("ANTHROPIC_BASE_URL", anthropic)
            }
            Wire::Responses => self.env("OPENAI_API_KEY", CANARY).env("OPENAI_BASE_URL", base_url),
        }
    }

    /// Writes the user's `config.toml`, as a file that is trusted.
    pub(crate) fn config_toml(self, text: &str) -> Self {
        let path = self.settings_file();
        write_trusted(&path, text);
        self
    }

    /// Writes the user's `engines.toml`, as a file that is trusted.
    pub(crate) fn engines_toml(self, text: &str) -> Self {
        write_trusted(&self.settings_file().with_file_name("engines.toml"), text);
        self
    }

    pub(crate) fn settings_file(&self) -> PathBuf {
        self.place.path().join("config/act/config.toml")
    }

    /// Starts a scripted model on this wire that only `config.toml` selects; `lines` follow in its table `[model]`.
    pub(crate) fn script_by_file(mut self, wire: Wire, yaml: &str, lines: &str) -> Self {
        let model = ScriptedServer::start(Script::from_yaml(yaml).unwrap()).unwrap();
        let (endpoint, word) = match wire {
            Wire::ChatCompletions => (model.base_url(), "chat_completions"),
            Wire::Messages => (model.anthropic_base_url(), "messages"),
            Wire::Responses => (model.base_url(), "responses"),
        };
        self.model = Some(Arc::new(model));
        let table =
            format!("[model]\nendpoint = \"{endpoint}\"\nwire = \"{word}\"\nname = \"scripted\"\n");
        self.config_toml(&format!("{table}{lines}\n"))
    }

    /// Names an engine that does not exist.
    pub(crate) fn without_engine(self) -> Self {
        self.env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Writes `bytes` to stdin as soon as stdout contains the question.
    pub(crate) fn answer(mut self, question: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        self.answer = Some((question, bytes.into()));
        self
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.place.path().join("repo")
    }

    pub(crate) fn artifacts(&self) -> PathBuf {
        self.place.path().join("artifacts")
    }

    /// Lets the step [`UNTIL_TOLD`] of the only run continue.
    pub(crate) fn tell_step(&self) {
        let mut runs = fs::read_dir(self.artifacts().join("runs")).unwrap();
        let run = runs.next().unwrap().unwrap().path();
        assert!(runs.next().is_none(), "more than one run");
        fs::write(run.join("db/go"), "").unwrap();
    }

    /// Sets the directory that the program is started in; the default is the repository.
    pub(crate) fn within(self, directory: PathBuf) -> Self {
        Self { directory, ..self }
    }

    /// Runs `act run TEXT` in the repository and waits for its end.
    pub(crate) fn run(self, text: &str) -> Done {
        self.act(["run", text])
    }

    /// Runs the program with these arguments and waits for its end.
    pub(crate) fn act<A: Into<OsString>>(self, arguments: impl IntoIterator<Item = A>) -> Done {
        self.start(arguments).wait()
    }

    /// Starts the program with these arguments.
    pub(crate) fn start<A: Into<OsString>>(
        self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Running {
        let mut command = std::process::Command::new(program());
        command.args(arguments.into_iter().map(Into::into)).current_dir(&self.directory);
        self.start_command(command)
    }

    /// Starts the program with these arguments and a pipe for each of its streams.
    pub(crate) fn piped(&self, arguments: &[&str]) -> std::process::Child {
        let mut command = std::process::Command::new(program());
        command.args(arguments).current_dir(&self.directory);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        let pipe = std::process::Stdio::piped;
        command.stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().unwrap()
    }

    /// Returns the model, to wait for requests.
    pub(crate) fn model_server(&self) -> &ScriptedServer {
        self.model.as_ref().expect("the story has a script")
    }

    /// Starts another command with the same environment, for what has to happen around the program.
    pub(crate) fn start_command(self, mut command: std::process::Command) -> Running {
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.directory);
        Running::start(command, self.stdin, self.answer, self.place, self.model)
    }
}

fn write_trusted(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

pub(crate) fn program() -> &'static str {
    env!("CARGO_BIN_EXE_act")
}
