//! Parses requests: path, query and options.

mod options;
mod path;
mod query;
mod request_info;

pub(crate) use self::{
    options::{
        DeleteOptions, DeletionPropagation, FieldValidation, ListOptions, ResourceVersionMatch, WriteOptions,
        WriteVerb,
    },
    path::{Route, Target, route},
    query::{Query, decode, encode},
    request_info::RequestInfo,
};
