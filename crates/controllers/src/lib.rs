//! The built-in controllers: ordinary clients of the API, a file or folder each.

pub mod discovery;
mod garbage;
mod namespace;
pub mod objects;
pub mod resource;
pub mod writer;
