//! Signals that stop a program.

use std::{io, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinSet,
};
use tracing::{info, warn};

use super::Stop;

/// The numbers of SIGINT, SIGTERM and SIGQUIT.
const ENDINGS: [i32; 3] = [2, 15, 3];

/// Stops on the first signal and ends the process on the second. Listens until the returned set is dropped.
// upstream: staging/src/k8s.io/apiserver/pkg/server/signal.go SetupSignalContext
pub(super) fn stop_by(stop: &Stop, grace: Duration) -> JoinSet<()> {
    let mut listening = JoinSet::new();
    for number in ENDINGS {
        let signals: io::Result<Signal> = signal(SignalKind::from_raw(number));
        match signals {
            Ok(signals) => {
                listening.spawn(listen(signals, number, stop.clone(), grace));
            }
            Err(error) => warn!(signal = number, %error, "failed to listen for signal"),
        }
    }
    listening
}

async fn listen(mut signals: Signal, number: i32, stop: Stop, grace: Duration) {
    while signals.recv().await.is_some() {
        if stop.is_stopped() {
            warn!(signal = number, "received second signal; exiting immediately");
            std::process::exit(128 + number);
        }
        info!(signal = number, ?grace, "received signal; stopping");
        stop.stop(grace);
    }
}
