//! What background tasks of every crate share.
//!
//! Programs of the framework get all of it from `kubecontroller`. It is a crate of its own because stores and the API server
//! need it too, and must not know the framework.

mod backoff;
mod clock;
mod panic_message;

pub use self::{
    backoff::{Backoff, BackoffDelays},
    clock::Clock,
    panic_message::panic_message,
};
pub use jiff::Timestamp;
