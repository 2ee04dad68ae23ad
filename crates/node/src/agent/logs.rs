//! Logs of containers, rotated before they fill the disk.

use std::time::Duration;

use kubecontroller::manager::Stop;
use tokio::time::{sleep, timeout};

use super::{LogLimits, link::RuntimeWatch};

/// How long rotating all logs may take.
const LIMIT: Duration = Duration::from_mins(2);

/// Rotates logs.
pub(super) async fn rotate(limits: LogLimits, runtime: RuntimeWatch, stop: Stop) {
    let rotate = async {
        loop {
            sleep(limits.period).await;
            let Some(runtime) = runtime.borrow().clone() else {
                continue;
            };
            // The file that is written is one of those that are kept.
            let old = limits.files.saturating_sub(1);
            match timeout(LIMIT, runtime.rotate_logs(limits.size, old)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "cannot rotate logs of containers"),
                Err(_) => tracing::warn!("rotating logs of containers takes too long"),
            }
        }
    };
    stop.unless_stopped(rotate).await;
}
