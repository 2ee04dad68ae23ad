//! Tokio runtimes of commands.

use tokio::runtime::{Builder, Runtime};

use crate::command_error::CommandError;

/// A runtime on the current thread.
pub(crate) fn current_thread() -> Result<Runtime, CommandError> {
    build(&mut Builder::new_current_thread())
}

/// A runtime with a number of worker threads.
pub(crate) fn multi_thread(count: usize) -> Result<Runtime, CommandError> {
    build(Builder::new_multi_thread().worker_threads(count))
}

/// A runtime with a worker thread per core.
pub(crate) fn all_cores() -> Result<Runtime, CommandError> {
    build(&mut Builder::new_multi_thread())
}

fn build(builder: &mut Builder) -> Result<Runtime, CommandError> {
    builder.enable_all().build().map_err(|error| {
        let advice = "check `ulimit -u` and the memory of the machine";
        CommandError::new("cannot start threads", advice).caused_by(error)
    })
}
