//! What a request asks for: the parts of its path and the options in its query, checked.

mod info;
mod options;
mod path;
mod query;

pub(crate) use self::{
    info::Info,
    options::{DeleteOptions, FieldValidation, ListOptions, Match, Propagation, WriteOptions, Writing},
    path::{Route, Target, route},
    query::{Query, decode, encode},
};
