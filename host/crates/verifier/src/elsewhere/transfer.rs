//! Archives on their way to and from a container: made and read on a thread of their own, a few pieces at a
//! time, with a bound on silence and none on size.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bollard::query_parameters::{DownloadFromContainerOptions, UploadToContainerOptions};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;

use crate::blocking::blocking;
use crate::docker_error::{EngineError, Phase};
use crate::engine::{Engine, WORK};
use act_core::verification::InfraError;

const PIECE: usize = 128 * 1024;
/// Pieces on their way at once.
const IN_FLIGHT: usize = 8;
/// In seconds: the client's own limit counts from the first byte sent. Ours is on silence.
const NO_LIMIT: u64 = 24 * 60 * 60;

/// Sends what `pack` writes, an archive, to be unpacked at `path`; the engine obeys the owners in it.
pub(super) async fn upload<T: Send + 'static>(
    engine: &Engine,
    container: &str,
    path: &str,
    pack: impl FnOnce(&mut dyn Write) -> io::Result<T> + Send + 'static,
) -> Result<T, InfraError> {
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(IN_FLIGHT);
    let moved = Arc::new(AtomicU64::new(0));
    let counter = moved.clone();
    let packing = blocking(move || {
        let mut sending = Sending { pieces: sender, buffer: vec![], moved: counter };
        match pack(&mut sending).and_then(|packed| sending.flush().map(|()| packed)) {
            Ok(packed) => Ok(packed),
            Err(error) => {
                // Else what was sent so far would look like all of it.
                let _ = sending.pieces.blocking_send(Err(io::ErrorKind::Interrupted.into()));
                Err(error)
            }
        }
    });
    let pieces = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    let options = UploadToContainerOptions {
        path: path.to_owned(),
        // Else some engines give everything to the container's user, its `/etc/passwd` included.
        copy_uidgid: Some("false".to_owned()),
        ..UploadToContainerOptions::default()
    };
    let mut docker = engine.docker.clone();
    docker.set_timeout(std::time::Duration::from_secs(NO_LIMIT));
    let body = bollard::body_try_stream(pieces);
    let sent = async {
        tokio::select! {
            sent = docker.upload_to_container(container, Some(options), body) => {
                sent.map_err(|error| EngineError::new(Phase::Prepare, &error))
            }
            () = silence(&moved) => Err(EngineError::silent(Phase::Prepare)),
        }
    };
    let (packed, sent) = tokio::join!(packing, sent);
    match (packed, sent) {
        (Ok(packed), Ok(())) => Ok(packed),
        // The thread ends with this because nobody listens any more.
        (Err(error), Err(sent)) if error.kind() == io::ErrorKind::BrokenPipe => Err(sent.into()),
        (Err(error), _) => Err(InfraError::from_io("send the tree to the engine", &error)),
        (Ok(_), Err(sent)) => Err(sent.into()),
    }
}

/// Hands the archive of `path` to `unpack`, which need not read all of it.
pub(super) async fn download<T: Send + 'static>(
    engine: &Engine,
    container: &str,
    path: &str,
    unpack: impl FnOnce(&mut dyn Read) -> io::Result<T> + Send + 'static,
) -> Result<T, InfraError> {
    let (sender, receiver) = mpsc::channel::<Bytes>(IN_FLIGHT);
    let reading =
        blocking(move || unpack(&mut Receiving { pieces: receiver, piece: Bytes::new() }));
    let options = DownloadFromContainerOptions { path: path.to_owned() };
    let mut pieces = Box::pin(engine.docker.download_from_container(container, Some(options)));
    let pumping = async move {
        loop {
            let piece = match tokio::time::timeout(WORK, pieces.next()).await {
                Ok(Some(Ok(piece))) => piece,
                Ok(Some(Err(error))) => return Err(EngineError::new(Phase::Fetch, &error)),
                Ok(None) => return Ok(()),
                Err(_) => return Err(EngineError::silent(Phase::Fetch)),
            };
            if !piece.is_empty() && sender.send(piece).await.is_err() {
                return Ok(());
            }
        }
    };
    let (read, pumped) = tokio::join!(reading, pumping);
    match (read, pumped) {
        (_, Err(error)) => Err(error.into()),
        (read, Ok(())) => {
            read.map_err(|error| InfraError::from_io("read what the engine sends", &error))
        }
    }
}

/// Ends when nothing has moved for as long as an engine may think.
async fn silence(moved: &AtomicU64) {
    let mut seen = None;
    loop {
        let now = moved.load(Ordering::Relaxed);
        if seen.replace(now) == Some(now) {
            return;
        }
        tokio::time::sleep(WORK).await;
    }
}

struct Sending {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
    moved: Arc<AtomicU64>,
}

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(2 * PIECE));
        self.moved.fetch_add(piece.len() as u64, Ordering::Relaxed);
        let sent = self.pieces.blocking_send(Ok(Bytes::from(piece)));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Ends where the engine's stream does; whether that was the archive's end, the archive says.
struct Receiving {
    pieces: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Read for Receiving {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let count = into.len().min(self.piece.len());
        let taken = self.piece.split_to(count);
        into.get_mut(..count).unwrap_or_default().copy_from_slice(&taken);
        Ok(count)
    }
}
