//! The built-in controllers: ordinary clients of the API, a file or folder each.

mod cronjob;
mod job;
pub mod news;
pub mod objects;
pub mod resource;
mod ttl_after_finished;
pub mod writer;
