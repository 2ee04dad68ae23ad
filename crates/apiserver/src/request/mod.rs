//! What a request asks for: the parts of its path and the options in its query, checked.

mod options;
mod path;
mod query;

pub(crate) use self::{
    options::{DeleteOptions, FieldValidation, ListOptions, Match, Propagation, WriteOptions, Writing},
    path::{Route, Target, route},
    query::Query,
};
