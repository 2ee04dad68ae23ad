//! The built-in controllers: ordinary clients of the API, a file or folder each.

pub mod objects;
pub mod resource;
pub mod writer;
