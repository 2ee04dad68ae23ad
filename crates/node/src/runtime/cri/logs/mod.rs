//! The logs of containers, which the runtime writes to files and nobody but the agent rotates and removes.
//!
//! ```text
//! <pod's folder>/<container>/<attempt>.log              what is written to now
//! <pod's folder>/<container>/<attempt>.log.<time>       what was rotated away
//! ```
//!
//! Promises: lines come in the order they were written, across rotations; a reader that follows sees each line once and ends after
//! the last one; the last lines of a long log are found from its end.

mod entry;
mod files;
mod reader;
mod tail;

pub(super) use self::{
    files::{overgrown, prune, put_back, remove, set_aside},
    reader::{Alive, read},
};
