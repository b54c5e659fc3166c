//! `GET /api/events`: the events of all tasks as server-sent events.
//!
//! Each reader has a position of its own and takes from the journals what is behind it, as fast as it reads. Nothing is queued
//! for it, so a slow reader costs no memory, and one that takes nothing at all loses its connection.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::{Notify, watch};

use crate::cursor::Position;
use crate::journals::{Item, Journals};
use act_core::secret::Secrets;

/// The streams that are open, by session.
#[derive(Default)]
pub(crate) struct Readers {
    count: AtomicUsize,
    sessions: Mutex<Vec<(u64, Arc<Parked>)>>,
}

/// Tells the stream of a reader that a newer one of its session takes its place.
#[derive(Default)]
struct Parked {
    parked: AtomicBool,
    notify: Notify,
}

/// The place of one stream among all, which is given back when it ends.
pub(crate) struct Seat {
    readers: Arc<Readers>,
    parked: Arc<Parked>,
}

impl Readers {
    /// Takes a place for a stream of a session; `None` when all are taken. A session has at most `per_session`: a browser opens
    /// at most six connections to a host, so one must stay free for pages. The oldest stream of the session ends then, and its
    /// page says so.
    pub(crate) fn sit(
        self: &Arc<Self>,
        session: Option<u64>,
        most: usize,
        per_session: usize,
    ) -> Option<Seat> {
        if self.count.fetch_add(1, Ordering::SeqCst) >= most {
            self.count.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        let parked = Arc::new(Parked::default());
        if let Some(session) = session {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.push((session, Arc::clone(&parked)));
            let own: Vec<_> = sessions
                .iter()
                .filter(|(of, one)| *of == session && !one.parked.load(Ordering::SeqCst))
                .collect();
            let surplus = own.len().saturating_sub(per_session);
            for (_, oldest) in own.into_iter().take(surplus) {
                oldest.parked.store(true, Ordering::SeqCst);
                oldest.notify.notify_one();
            }
        }
        Some(Seat { readers: Arc::clone(self), parked })
    }

    /// Returns the number of open streams.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.readers.count.fetch_sub(1, Ordering::SeqCst);
        let mut sessions = self.readers.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(_, parked)| !Arc::ptr_eq(parked, &self.parked));
    }
}

struct Reader {
    seat: Seat,
    journals: Arc<Journals>,
    changed: watch::Receiver<u64>,
    position: Position,
    frames: VecDeque<Bytes>,
    heartbeat: Duration,
    secrets: Secrets,
    over: bool,
}

/// Returns the frames of a stream from a position on.
pub(crate) fn events(
    seat: Seat,
    journals: Arc<Journals>,
    position: Position,
    heartbeat: Duration,
    secrets: Secrets,
) -> impl Stream<Item = Bytes> {
    let mut changed = journals.subscribe();
    // The first round reads what is there already.
    changed.mark_changed();
    // The first frame gives a reader its cursor before anything happens. After a lost connection it comes back in a second.
    let first = format!("retry: 1000\nid: {}\nevent: here\ndata: {{}}\n\n", position.encode());
    let frames = VecDeque::from([Bytes::from(first)]);
    let reader =
        Reader { seat, journals, changed, position, frames, heartbeat, secrets, over: false };
    futures_util::stream::unfold(reader, |mut reader| async move {
        let frame = reader.next().await?;
        Some((frame, reader))
    })
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            if self.over {
                return None;
            }
            if self.seat.parked.parked.load(Ordering::SeqCst) {
                self.over = true;
                return Some(Bytes::from_static(b"event: parked\ndata: {}\n\n"));
            }
            tokio::select! {
                changed = self.changed.changed() => changed.ok()?,
                () = self.seat.parked.notify.notified() => continue,
                () = tokio::time::sleep(self.heartbeat) => {
                    return Some(Bytes::from_static(b": heartbeat\n\n"));
                }
            }
            let (journals, mut position) = (Arc::clone(&self.journals), self.position.clone());
            let read = move || (journals.next(&mut position), position);
            let (items, position) = tokio::task::spawn_blocking(read).await.ok()?;
            self.position = position;
            if !items.is_empty() {
                // A round takes a bounded number of bytes, so there may be more.
                self.changed.mark_changed();
            }
            let secrets = self.secrets.clone();
            self.frames
                .extend(items.into_iter().map(|(cursor, item)| frame(&cursor, &item, &secrets)));
        }
    }
}

fn frame(cursor: &str, item: &Item, secrets: &Secrets) -> Bytes {
    let text = match item {
        Item::Line(json) => format!("id: {cursor}\ndata: {}\n\n", secrets.redact(json)),
        Item::Gap(gap) => {
            let json = serde_json::to_string(gap).unwrap_or_default();
            format!("id: {cursor}\nevent: gap\ndata: {json}\n\n")
        }
    };
    Bytes::from(text)
}
