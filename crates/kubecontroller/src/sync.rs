//! Locks. The model of the queue (`testing/queue-model`) puts those of a model checker in their place.

pub(crate) use std::sync::{Mutex, MutexGuard};
