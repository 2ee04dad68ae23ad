//! Where the stores under test keep their data, and the macro that runs each conformance test on all of them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k3_storage::Store;

pub(crate) mod etcd;
pub(crate) mod file;
mod memory;
pub(crate) mod mysql;

pub(crate) use self::{etcd::Etcd, file::File, memory::Memory, mysql::Mysql};

/// How long a test may take before it counts as hung. Generous: machines of CI are slow and shared.
const LIMIT: Duration = Duration::from_mins(2);

/// Somewhere to keep a store that no other test touches.
#[async_trait]
pub(crate) trait TestBackend: Send + Sync {
    /// An empty backend.
    async fn fresh() -> Self
    where
        Self: Sized;

    /// Another empty backend of the same kind.
    async fn another(&self) -> Box<dyn TestBackend>;

    /// Opens the store that is kept here. A durable backend gives the same data again after a close;
    /// a shared one takes several handles at once, each as good as a process of its own.
    async fn open(&self) -> Arc<dyn Store>;
}

/// Defines each conformance test on each backend. Tests under `durable` need a backend that can be
/// opened again, those under `shared` one that takes two handles at once.
///
/// This is the list of backends.
macro_rules! conformance_tests {
    (
        $(every: [$($every:ident),* $(,)?] $(,)?)?
        $(durable: [$($durable:ident),* $(,)?] $(,)?)?
        $(shared: [$($shared:ident),* $(,)?] $(,)?)?
    ) => {
        tests!(memory, Memory, [$($($every)*)?]);
        tests!(file, File, [$($($every)*)? $($($durable)*)?]);
        tests!(etcd, Etcd, [$($($every)*)? $($($durable)*)? $($($shared)*)?]);
        tests!(mysql, Mysql, [$($($every)*)? $($($durable)*)? $($($shared)*)?]);
    };
}

/// Defines each conformance test on one backend.
macro_rules! tests {
    ($backend:ident, $target:ident, []) => {};
    ($backend:ident, $target:ident, [$($test_name:ident)*]) => {
        mod $backend {
            use crate::backend::{$target, TestBackend, run};
            $(
                #[test]
                fn $test_name() {
                    run(async { super::$test_name(&$target::fresh().await).await });
                }
            )*
        }
    };
}

/// Runs a test to its end, with real threads: a store that is only right on one is not right.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    run_within(LIMIT, test)
}

/// As [`run`], for tests that take their time.
pub(crate) fn run_within<T>(limit: Duration, test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let runtime = StoppingRuntime(Some(runtime));
    runtime
        .0
        .as_ref()
        .expect("taken on drop only")
        .block_on(async { tokio::time::timeout(limit, test).await.expect("the test hangs") })
}

/// A runtime that does not wait for its tasks: one that still runs when a test has failed must not
/// turn the failure into a hang.
struct StoppingRuntime(Option<tokio::runtime::Runtime>);

// --- StoppingRuntime ---

impl Drop for StoppingRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
