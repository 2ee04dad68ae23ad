//! Blocking work: file I/O, mounts and other system calls that may take long.
//!
//! Promise: no thread of the async runtime waits for a disk. A full or broken disk then delays only what needs it: leases, probes and
//! the kubelet API go on. Files with file I/O contain no async code (`cargo xtask tidy` checks that), and async code calls their
//! functions through [`run_blocking`].

use tokio::task::spawn_blocking;

/// Runs `work` on a thread for blocking work. Dropping the future does not stop it.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Cancelled: the async runtime shuts down, and drops this future next.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn other_tasks_run_meanwhile() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiting = run_blocking(move || receiver.recv_timeout(Duration::from_mins(1)));
        // On the thread of this test, the runtime's only one, the send would come after the timeout.
        let (received, ()) = tokio::join!(waiting, async move { sender.send(7).unwrap() });
        assert_eq!(received, Ok(7));
    }

    #[tokio::test]
    #[should_panic(expected = "broken")]
    async fn panics_reach_the_caller() {
        run_blocking(|| panic!("broken")).await;
    }
}
