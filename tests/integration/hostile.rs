//! The hostile component, a repository that is worth attacking, and a model that does what a test says.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use act_component::{
    ComponentFailure, ComponentHost, Grant, LoadError, Loaded, ScoutComponent, Services,
    ToolComponent,
};
use act_component::{ScoutQuestion, custom_section};
use act_core::event::{Event, EventKind, Events, Sink};
use act_model::{
    Ask, Conversation, Model, ModelError, ModelUsage, Stop, ToolResult, ToolSpec, Turn,
};
use act_workspace::{Profile, RepoView, RepoWriter, WriteRules};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Long enough that it never ends a query that is not meant to be ended.
pub(crate) const PLENTY: Duration = Duration::from_secs(60);

pub(crate) fn bytes(name: &str) -> Vec<u8> {
    fs::read(Path::new(act_component::builtin::TEST_COMPONENTS).join(name).with_extension("wasm"))
        .unwrap()
}

/// The hostile component with a manifest that declares these needs.
pub(crate) fn packed(name: &str, needs: &[&str]) -> Vec<u8> {
    let needs: Vec<_> =
        needs.iter().map(|grant| json!({ "grant": grant, "why": "to attack" })).collect();
    let manifest = json!({
        "kind": "scout", "name": name, "version": "0.1.0", "about": "Attacks.", "needs": needs, "report": {},
    });
    custom_section::pack(&bytes("hostile"), manifest.to_string().as_bytes())
}

/// Compiled code is cached between runs of the tests.
pub(crate) fn host() -> ComponentHost {
    ComponentHost::new(Some(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("code")))
}

pub(crate) fn load(grant: Grant) -> ScoutComponent {
    load_with(&["repo.read", "llm"], grant).unwrap()
}

pub(crate) fn load_with(needs: &[&str], grant: Grant) -> Result<ScoutComponent, LoadError> {
    let loaded = host().load(&packed("hostile", needs), grant, &Events::silent());
    loaded.and_then(Loaded::into_scout)
}

/// The hostile tool component, with everything that a tool may be granted.
pub(crate) fn load_tool() -> ToolComponent {
    load_tool_with(Grant::builtin_tool())
}

pub(crate) fn load_tool_with(grant: Grant) -> ToolComponent {
    let needs = [("repo.read", "to attack"), ("repo.write", "to attack")]
        .map(|(grant, why)| json!({ "grant": grant, "why": why }));
    let manifest = json!({
        "kind": "tool", "name": "hostile-tool", "version": "0.1.0", "about": "Attacks.", "needs": needs,
        "tools": [{ "name": "attack", "description": "Attacks.", "parameters": {} }],
    });
    let packed = custom_section::pack(&bytes("hostile-tool"), manifest.to_string().as_bytes());
    host().load(&packed, grant, &Events::silent()).unwrap().into_tool().unwrap()
}

/// The services that the Editor gives to its tools.
pub(crate) fn editing(writer: &Arc<RepoWriter>, events: Events) -> Services {
    Services {
        view: Some(writer.view().clone()),
        versions: Some(writer.versions().clone()),
        writer: Some(Arc::clone(writer)),
        events,
        ..nothing()
    }
}

/// Runs one attack of the hostile tool to its end.
pub(crate) async fn attack_as_tool(
    tool: &ToolComponent,
    attack: &str,
    arguments: &[&str],
    services: Services,
) -> Value {
    let never = CancellationToken::new();
    let arguments = json!(arguments).to_string();
    let outcome = tool.call(attack, &arguments, services, PLENTY, &never).await.unwrap();
    serde_json::from_str(&outcome.text).unwrap()
}

/// A context that lends nothing.
pub(crate) fn nothing() -> Services {
    Services {
        view: None,
        versions: None,
        writer: None,
        model: None,
        attempt: 1,
        events: Events::silent(),
    }
}

pub(crate) fn reading(view: &RepoView) -> Services {
    Services { view: Some(view.clone()), ..nothing() }
}

pub(crate) fn talking(model: &Arc<Scripted>) -> Services {
    let model: Arc<dyn Model> = Arc::<Scripted>::clone(model);
    Services { model: Some((model, "hostile".to_owned())), ..nothing() }
}

pub(crate) fn question(attack: &str, arguments: &[&str]) -> ScoutQuestion {
    let context = arguments.iter().map(|value| (String::new(), value.to_string())).collect();
    ScoutQuestion { text: attack.to_owned(), context, facts_only: false }
}

/// Runs one attack to its end.
pub(crate) async fn attack(
    component: &ScoutComponent,
    attack: &str,
    arguments: &[&str],
    services: Services,
) -> Result<Value, ComponentFailure> {
    let never = CancellationToken::new();
    let report = component.ask(question(attack, arguments), services, PLENTY, &never).await?;
    Ok(serde_json::from_str(&report).unwrap())
}

/// A repository with secrets, links out of it, a FIFO and a socket, and something outside to reach for.
pub(crate) struct Repository {
    temp: tempfile::TempDir,
}

pub(crate) const SECRET: &str = "SECRET";

impl Repository {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("repo");
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a.txt", "hello");
        write("sub/b.txt", "there");
        write("../outside/x", SECRET);
        for secret in [
            ".env",
            "sub/.env.local",
            "id_rsa",
            "x.PEM",
            ".npmrc",
            ".git/config",
            ".git/objects/x",
            "node_modules/m/x",
            "ignored.txt",
            "logs/x",
            "image.PNG",
        ] {
            write(secret, SECRET);
        }
        write("data", &format!("\0{SECRET}"));
        write(".gitignore", "ignored.txt\nlogs/\n");
        for (link, target) in [
            ("link", "a.txt"),
            ("chain", "link"),
            ("linkdir", "sub"),
            ("loop", "loop"),
            ("link-env", ".env"),
            ("sub/link-up", "../.env"),
            ("git-link", ".git"),
            ("out", "../outside/x"),
            ("out-dir", "../outside"),
            ("passwd", "/etc/passwd"),
            ("etc", "/etc"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let fifo = rustix::fs::Mode::from_raw_mode(0o644);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, root.join("README.md"), kind, fifo, 0).unwrap();
        drop(std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap());
        Self { temp }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.temp.path().join("repo")
    }

    /// The view of a Scout, with `openat2` and without.
    pub(crate) fn views(&self) -> [RepoView; 2] {
        let view = RepoView::open(&self.root(), Profile::Scout).unwrap();
        [view.clone(), view.without_openat2()]
    }

    /// The writer of a task, with `openat2` and without.
    pub(crate) fn writers(&self) -> [Arc<RepoWriter>; 2] {
        let open = || RepoWriter::open(&self.root(), WriteRules::default()).unwrap();
        [Arc::new(open()), Arc::new(open().without_openat2())]
    }

    /// Everything that an attack could have changed, inside and outside.
    pub(crate) fn state(&self) -> Vec<String> {
        let mut state = vec![];
        describe(self.temp.path(), &mut state);
        state
    }
}

fn describe(path: &Path, state: &mut Vec<String>) {
    let data = fs::symlink_metadata(path).unwrap();
    let content = match data.file_type() {
        kind if kind.is_file() => format!("{:?}", fs::read(path).unwrap()),
        kind if kind.is_symlink() => format!("{:?}", fs::read_link(path).unwrap()),
        _ => String::new(),
    };
    state.push(format!(
        "{} inode {} mode {:o} links {} modified {}.{} {content}",
        path.display(),
        data.ino(),
        data.mode(),
        data.nlink(),
        data.mtime(),
        data.mtime_nsec(),
    ));
    if data.is_dir() {
        let mut entries: Vec<_> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| describe(entry, state));
    }
}

/// Remembers the events of a query.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<EventKind>>>);

impl Sink for Heard {
    fn event(&mut self, event: &Event) {
        self.0.lock().unwrap().push(event.kind.clone());
    }
}

impl Heard {
    pub(crate) fn events(&self) -> Events {
        Events::new("t-000000", vec![Box::new(self.clone())])
    }

    pub(crate) fn kinds(&self) -> Vec<EventKind> {
        self.0.lock().unwrap().clone()
    }

    /// Grant and object of each denial.
    pub(crate) fn denials(&self) -> Vec<(String, String)> {
        let denied = |kind: EventKind| match kind {
            EventKind::ComponentDenied { grant, object, .. } => Some((grant, object)),
            _ => None,
        };
        self.kinds().into_iter().filter_map(denied).collect()
    }
}

/// The next action of the model.
pub(crate) enum Reply {
    Text(&'static str, ModelUsage),
    Error(ModelError),
    /// Answers after this time.
    Late(Duration),
    /// Answers nothing for ever.
    Stall,
}

/// Answers as the script says, then stalls. Tells what was asked, and when a stalled request was closed.
pub(crate) struct Scripted {
    replies: Mutex<VecDeque<Reply>>,
    told: mpsc::UnboundedSender<Told>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Opened {
        role: String,
        system: String,
    },
    Asked {
        attempt: u32,
        max_tokens: Option<u32>,
    },
    /// A request that was under way is no more.
    Closed,
    /// The last holder of the model is gone: the query's store among them.
    Dropped,
}

impl Scripted {
    pub(crate) fn new(replies: Vec<Reply>) -> (Arc<Self>, mpsc::UnboundedReceiver<Told>) {
        let (told, hear) = mpsc::unbounded_channel();
        (Arc::new(Self { replies: Mutex::new(replies.into()), told }), hear)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let _ = self.told.send(Told::Dropped);
    }
}

impl Model for Scripted {
    fn open(&self, role: &str, system: &str, _tools: &[ToolSpec]) -> Box<dyn Conversation> {
        let _ = self.told.send(Told::Opened { role: role.to_owned(), system: system.to_owned() });
        let replies = std::mem::take(&mut *self.replies.lock().unwrap());
        Box::new(ScriptedConversation { replies, told: self.told.clone() })
    }
}

struct ScriptedConversation {
    replies: VecDeque<Reply>,
    told: mpsc::UnboundedSender<Told>,
}

impl Conversation for ScriptedConversation {
    fn say(&mut self, _text: &str) {}

    fn answer(&mut self, _results: Vec<ToolResult>) -> Result<(), ModelError> {
        Ok(())
    }

    fn next<'a>(
        &'a mut self,
        ask: Ask,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Turn, ModelError>> {
        let _ = self.told.send(Told::Asked { attempt: ask.attempt, max_tokens: ask.max_tokens });
        let reply = self.replies.pop_front().unwrap_or(Reply::Stall);
        let open = Connection(self.told.clone());
        Box::pin(async move {
            let _open = open;
            match reply {
                Reply::Text(text, usage) => {
                    Ok(Turn { text: text.to_owned(), calls: vec![], stop: Stop::Done, usage })
                }
                Reply::Error(error) => Err(error),
                Reply::Late(time) => {
                    tokio::time::sleep(time).await;
                    let usage = ModelUsage::default();
                    Ok(Turn { text: "late".to_owned(), calls: vec![], stop: Stop::Done, usage })
                }
                Reply::Stall => std::future::pending().await,
            }
        })
    }
}

struct Connection(mpsc::UnboundedSender<Told>);

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.0.send(Told::Closed);
    }
}
