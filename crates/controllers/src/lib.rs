//! The built-in controllers: ordinary clients of the API, a file or folder each.

mod cronjob;
pub mod deployment;
pub mod discovery;
mod garbage;
mod job;
mod namespace;
pub mod news;
pub mod objects;
pub mod pods;
pub mod replicaset;
pub mod resource;
mod ttl_after_finished;
pub mod writer;
pub mod written;
