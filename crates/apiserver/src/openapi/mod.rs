//! The API in its own words: `OpenAPI` documents, version 3 by group and version, version 2 as a whole.
//!
//! Promises: every type that a path of a document reaches is defined in it, with its description, which fields it
//! wants, and how its lists and maps are merged; every path is there with what can be done at it. `kubectl explain`,
//! the validation of `kubectl apply`, and generators of clients need nothing else.
//!
//! Documents are built when they are first asked for, one definition at a time, and kept deflated.
//!
//! From the bottom up: `name` and `leaf` say what types are called, `definition` writes types, `parameter` and
//! `operation` say what can be asked at a path, `paths` lists the paths, `render` writes them, `document` puts a
//! document together, `gnostic` turns version 2 into protobuf, `answer` serves them.

mod column;
mod custom;
mod definition;
mod document;
mod gnostic;
mod handler;
mod leaf;
mod name;
mod operation;
mod parameter;
mod paths;
mod render;

pub(crate) use self::{column::column_description, handler::OpenApi};
