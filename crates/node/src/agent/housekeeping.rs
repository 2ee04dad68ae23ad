//! What is done again and again, whatever happens: dead containers are removed, and logs rotated.

use std::{sync::Arc, time::Duration};

use kubecontroller::manager::Stop;
use tokio::time::{sleep, timeout};

use super::{LogLimits, link::RuntimeWatch, tenants::Tenants};

/// How often dead containers are removed.
const GARBAGE: Duration = Duration::from_mins(1);
/// How long rotating all logs may take.
const LIMIT: Duration = Duration::from_mins(2);

/// Removes dead containers.
pub(super) async fn collect_garbage(tenants: Arc<dyn Tenants>, stop: Stop) {
    let collect = async {
        loop {
            sleep(GARBAGE).await;
            tenants.collect_garbage().await;
        }
    };
    stop.unless_stopped(collect).await;
}

/// Rotates logs.
pub(super) async fn rotate_logs(limits: LogLimits, runtime: RuntimeWatch, stop: Stop) {
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
