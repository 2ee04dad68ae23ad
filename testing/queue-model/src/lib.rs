//! The work queue of `kubecontroller`, with the model checker's locks in place of real ones. What is checked is in `tests`.

/// As in `kubecontroller`, where they are those of the standard library.
mod sync {
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
}

#[path = "../../../crates/kubecontroller/src/workqueue/mod.rs"]
pub mod workqueue;
