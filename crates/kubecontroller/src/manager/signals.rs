//! Signals that end a program.

use std::{io, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinSet,
};
use tracing::{info, warn};

use super::Stop;

/// INT, TERM and QUIT, in numbers.
const ENDINGS: [i32; 3] = [2, 15, 3];

/// The first signal stops, the second ends the process at once. Listens until what is returned is dropped.
pub(super) fn stop_by(stop: &Stop, grace: Duration) -> JoinSet<()> {
    let mut listening = JoinSet::new();
    for number in ENDINGS {
        let signals: io::Result<Signal> = signal(SignalKind::from_raw(number));
        match signals {
            Ok(signals) => {
                listening.spawn(listen(signals, number, stop.clone(), grace));
            }
            Err(error) => warn!(number, %error, "cannot listen to a signal"),
        }
    }
    listening
}

async fn listen(mut signals: Signal, number: i32, stop: Stop, grace: Duration) {
    while signals.recv().await.is_some() {
        if stop.is_stopped() {
            warn!(signal = number, "ending at once");
            std::process::exit(128 + number);
        }
        info!(signal = number, ?grace, "stopping");
        stop.stop(grace);
    }
}
