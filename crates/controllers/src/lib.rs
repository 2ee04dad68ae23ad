//! The built-in controllers: ordinary clients of the API, a file or folder each.

pub mod deployment;
pub mod objects;
pub mod pods;
pub mod replicaset;
pub mod resource;
pub mod writer;
pub mod written;
