//! A loopback address before an engine, as the end of a tunnel to another machine is.

use tokio::net::{TcpListener, UnixStream};
use tokio::task::JoinHandle;

/// Leads to the engine's socket as long as it lives.
pub(crate) struct Tunnel {
    pub(crate) host: String,
    task: JoinHandle<()>,
}

impl Tunnel {
    pub(crate) async fn start(engine: &str) -> Self {
        let target = engine.strip_prefix("unix://").expect("a local engine").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = format!("tcp://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let target = target.clone();
                tokio::spawn(async move {
                    let mut engine = UnixStream::connect(target).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut engine).await;
                });
            }
        });
        Self { host, task }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.task.abort();
    }
}
