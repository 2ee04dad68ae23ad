//! The work queue of `kubecontroller`, compiled against the locks of the model checker `shuttle`. The tests are in `tests`.

/// Replaces `kubecontroller`'s module of the same name, which has the locks of the standard library.
mod sync {
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
}

#[path = "../../../crates/kubecontroller/src/workqueue/mod.rs"]
pub mod workqueue;
