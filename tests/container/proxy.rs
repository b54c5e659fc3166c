//! A socket before the real engine that can be cut, as if the engine had died: the real one is never touched.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

pub(crate) struct Proxy {
    socket: PathBuf,
    /// `None` after the cut: connections that are accepted in that moment lead nowhere either.
    tasks: Arc<Mutex<Option<Vec<JoinHandle<()>>>>>,
}

impl Proxy {
    pub(crate) fn start(at: &Path, engine: &str) -> Self {
        let socket = at.join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let engine = engine.strip_prefix("unix://").expect("a local engine").to_owned();
        let tasks = Arc::new(Mutex::new(Some(vec![])));
        let (connections, target) = (tasks.clone(), engine);
        let accept = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let target = target.clone();
                let mut connections = connections.lock().unwrap();
                let Some(connections) = connections.as_mut() else { return };
                connections.push(tokio::spawn(async move {
                    let mut engine = UnixStream::connect(target).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut engine).await;
                }));
            }
        });
        tasks.lock().unwrap().as_mut().unwrap().push(accept);
        Self { socket, tasks }
    }

    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Every connection ends and no new one is taken.
    pub(crate) fn cut(&self) {
        for task in self.tasks.lock().unwrap().take().unwrap() {
            task.abort();
        }
        std::fs::remove_file(&self.socket).unwrap();
    }
}
