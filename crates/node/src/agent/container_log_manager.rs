//! Rotates container logs before they fill the disk.
// upstream: pkg/kubelet/logs/container_log_manager.go containerLogManager

use std::time::Duration;

use kubecontroller::manager::Stop;
use tokio::time::{sleep, timeout};

use super::{LogRotatePolicy, runtime_monitor::RuntimeReceiver};

/// Timeout of rotating all logs once.
const ROTATION_TIMEOUT: Duration = Duration::from_mins(2);

/// Rotates the logs of all containers periodically.
// upstream: pkg/kubelet/logs/container_log_manager.go rotateLogs
pub(super) async fn rotate_container_logs(policy: LogRotatePolicy, runtime: RuntimeReceiver, stop: Stop) {
    let rotate = async {
        loop {
            sleep(policy.period).await;
            let Some(runtime) = runtime.borrow().clone() else {
                continue;
            };
            // `max_files` includes the file that is being written.
            let rotated_files = policy.max_files.saturating_sub(1);
            match timeout(
                ROTATION_TIMEOUT,
                runtime.rotate_logs(policy.max_size, rotated_files),
            )
            .await
            {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "failed to rotate container logs"),
                Err(_) => tracing::warn!(timeout = ?ROTATION_TIMEOUT, "rotating container logs timed out"),
            }
        }
    };
    stop.unless_stopped(rotate).await;
}
