//! Locks of the work queue. `testing/queue-model` replaces this module with the locks of a model checker.

pub(crate) use parking_lot::{Mutex, MutexGuard};
