//! What waits and works for a command: the threads of a process.

use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// A runtime in the thread that uses it, for what mostly waits.
pub(crate) fn current_thread() -> Result<Runtime, Failure> {
    build(&mut Builder::new_current_thread())
}

/// A runtime with so many threads of its own.
pub(crate) fn multi_thread(count: usize) -> Result<Runtime, Failure> {
    build(Builder::new_multi_thread().worker_threads(count))
}

/// A runtime with a thread for each core.
pub(crate) fn all_cores() -> Result<Runtime, Failure> {
    build(&mut Builder::new_multi_thread())
}

fn build(builder: &mut Builder) -> Result<Runtime, Failure> {
    builder.enable_all().build().map_err(|error| {
        let advice = "see `ulimit -u` and the memory of the machine";
        Failure::new("cannot start threads", advice).caused_by(error)
    })
}
