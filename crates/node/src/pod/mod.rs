//! Pods: from what they ask for, and what is there, to what is done and told.

pub mod spec;
pub mod status;
