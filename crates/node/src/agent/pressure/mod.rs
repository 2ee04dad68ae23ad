//! What is done when the machine runs short of something.
//!
//! ```text
//! signal     what there is of each thing           threshold  what there must be left
//! rank       who has to go first                   message    what is told of it
//! local      pods that use more disk than they may usage      what pods use
//! manager    looks, says what is short, and throws pods off
//! ```

mod local;
mod manager;
mod message;
mod rank;
mod shortage;
mod signal;
mod threshold;
mod usage;

pub(super) use self::{
    manager::{Manager, Parts},
    usage::{FolderUse, MeasureVolumes},
};
pub use self::{
    signal::Signal,
    threshold::{Least, Threshold},
};
