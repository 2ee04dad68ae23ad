//! The built-in controllers: ordinary clients of the API, a file or folder each.

mod garbage;
pub mod objects;
pub mod resource;
pub mod writer;
