//! What a request asks for: the parts of its path and the options in its query, checked.

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
