//! A socket before the real engine that can be cut, as if the engine had died, or answers some requests itself: the real one is
//! never touched.

#![allow(dead_code, reason = "each test crate uses another part")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// Answers the requests whose first line contains `path` with this status, in place of the engine.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    pub(crate) path: &'static str,
    pub(crate) end: &'static str,
    pub(crate) status: u16,
}

/// What a proxy does to the traffic.
#[derive(Clone, Copy)]
enum Fault {
    Refuses(Refusal),
    /// The connection with the output of a step is cut after this word.
    CutsAfter(&'static str),
    /// Requests whose path ends so have this document as their answer, in place of the engine's.
    Answers {
        end: &'static str,
        body: &'static str,
    },
}

/// What the engine behind the proxy was asked, by the first lines of the requests.
pub(crate) type Asked = Arc<Mutex<Vec<String>>>;

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

    /// Starts a proxy that answers the requests of `refusal` itself if `refuses`, which gets their number, is true, and notes the first line of each request.
    pub(crate) fn refusing(
        at: &Path,
        engine: &str,
        refusal: Refusal,
        refuses: impl Fn(usize) -> bool + Send + Sync + 'static,
    ) -> (Self, Asked) {
        Self::with(at, engine, Fault::Refuses(refusal), refuses)
    }

    /// Starts a proxy that cuts the connection with the output of a step once the step has printed `word`, and notes the first
    /// line of each request.
    pub(crate) fn cutting_output(at: &Path, engine: &str, word: &'static str) -> (Self, Asked) {
        Self::with(at, engine, Fault::CutsAfter(word), |_| true)
    }

    /// Starts a proxy that answers requests whose path ends with `end` itself, with this document.
    pub(crate) fn answering(
        at: &Path,
        engine: &str,
        end: &'static str,
        body: &'static str,
    ) -> (Self, Asked) {
        Self::with(at, engine, Fault::Answers { end, body }, |_| true)
    }

    fn with(
        at: &Path,
        engine: &str,
        fault: Fault,
        refuses: impl Fn(usize) -> bool + Send + Sync + 'static,
    ) -> (Self, Asked) {
        let socket = at.join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let engine = engine.strip_prefix("unix://").expect("a local engine").to_owned();
        let tasks = Arc::new(Mutex::new(Some(vec![])));
        let (asked, refuses) = (Asked::default(), Arc::new(refuses));
        let (connections, seen) = (tasks.clone(), asked.clone());
        let accept = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (engine, seen, refuses) = (engine.clone(), seen.clone(), refuses.clone());
                let mut connections = connections.lock().unwrap();
                let Some(connections) = connections.as_mut() else { return };
                connections.push(tokio::spawn(async move {
                    let _ = one_request(client, &engine, fault, &*refuses, &seen).await;
                }));
            }
        });
        tasks.lock().unwrap().as_mut().unwrap().push(accept);
        (Self { socket, tasks }, asked)
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

/// Serves one request of a connection and closes it, so that every request has a first line that is read here.
async fn one_request(
    mut client: UnixStream,
    engine: &str,
    fault: Fault,
    refuses: &(dyn Fn(usize) -> bool + Send + Sync),
    seen: &Asked,
) -> std::io::Result<()> {
    let mut head = vec![];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 4096];
        match client.read(&mut piece).await? {
            0 => return Ok(()),
            length => head.extend_from_slice(&piece[..length]),
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let line = text.lines().next().unwrap_or_default().to_owned();
    seen.lock().unwrap().push(line.clone());
    let path = line.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    if let Fault::Refuses(refusal) = fault
        && path.contains(refusal.path)
        && path.ends_with(refusal.end)
    {
        let count = {
            let seen = seen.lock().unwrap();
            seen.iter().filter(|line| line.contains(refusal.path)).count()
        };
        if refuses(count) {
            let body = r#"{"message":"the engine is not well"}"#;
            return answer(client, refusal.status, body).await;
        }
    }
    if let Fault::Answers { end, body } = fault
        && path.ends_with(end)
    {
        return answer(client, 200, body).await;
    }
    let mut engine = UnixStream::connect(engine).await?;
    // An upgraded connection carries the output of a step; any other ends with its answer.
    let upgrades = text.to_lowercase().contains("upgrade: tcp");
    let head = match upgrades {
        true => head,
        false => closing(&head),
    };
    engine.write_all(&head).await?;
    if let (true, Fault::CutsAfter(word)) = (upgrades, fault) {
        return until_printed(client, engine, word).await;
    }
    tokio::io::copy_bidirectional(&mut client, &mut engine).await.map(drop)
}

async fn answer(mut client: UnixStream, status: u16, body: &str) -> std::io::Result<()> {
    let answer = format!(
        "HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}

/// Relays an upgraded connection until the engine has sent `word`, and closes both sides.
async fn until_printed(client: UnixStream, engine: UnixStream, word: &str) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_engine, mut to_engine) = engine.into_split();
    let up = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_engine).await });
    let (mut sent, mut piece) = (vec![], [0; 4096]);
    while !String::from_utf8_lossy(&sent).contains(word) {
        match from_engine.read(&mut piece).await? {
            0 => break,
            length => {
                sent.extend_from_slice(&piece[..length]);
                // The last frame is cut, because a connection that ends between two frames looks like the end of the output.
                let is_last = String::from_utf8_lossy(&sent).contains(word);
                to_client.write_all(&piece[..length - usize::from(is_last)]).await?;
            }
        }
    }
    up.abort();
    Ok(())
}

/// Returns the request with a header that makes the engine close the connection after its answer.
fn closing(head: &[u8]) -> Vec<u8> {
    let at = head.windows(2).position(|end| end == b"\r\n").unwrap_or(head.len());
    [&head[..at], b"\r\nConnection: close", &head[at..]].concat()
}
