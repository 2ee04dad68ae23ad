//! Container logs. The runtime writes the files; only the agent rotates and removes them.
//!
//! ```text
//! <pod log directory>/<container>/<attempt>.log              current file
//! <pod log directory>/<container>/<attempt>.log.<time>       rotated files
//! ```
//!
//! Promises: lines are returned in the order of writing, across rotations; a follower gets each line once, and ends after the last one;
//! the last lines of a long log are found from its end, without reading all of it.

mod entry;
mod files;
mod reader;
mod tail;

pub(super) use self::{
    files::{exceeds_size, prune, remove, rotate_file, undo_rotation},
    reader::{ContainerAliveCheck, read},
};
