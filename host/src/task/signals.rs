//! SIGINT, SIGTERM and SIGHUP cancel the task; nothing else does from outside.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use act_core::Failure;

/// A token that the first of the three signals cancels. Later ones change nothing: the container must be
/// gone before the process is.
pub fn cancelled_by_signals() -> Result<CancellationToken, Failure> {
    listen().map_err(|error| {
        Failure::refused("no_signals", format!("signals cannot be caught: {error}"))
    })
}

fn listen() -> std::io::Result<CancellationToken> {
    let mut signals = [
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    ];
    let cancel = CancellationToken::new();
    let cancelled = cancel.clone();
    tokio::spawn(async move {
        let [interrupt, terminate, hangup] = &mut signals;
        wait_for_any(interrupt, terminate, hangup).await;
        cancelled.cancel();
        // Keeps the handlers, and with them the default action away.
        std::future::pending::<()>().await;
    });
    Ok(cancel)
}

async fn wait_for_any(interrupt: &mut Signal, terminate: &mut Signal, hangup: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}
