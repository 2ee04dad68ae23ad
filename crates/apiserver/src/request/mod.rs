//! Parses requests: path, query and options.

mod options;
mod path;
mod query;
mod request_info;

pub(crate) use self::{
    options::{
        CommitMode, DeleteOptions, DeletionPropagation, FieldValidation, ListOptions, ListVerb,
        ResourceVersionMatch, WriteOptions, WriteVerb,
    },
    path::{Route, Target, route},
    query::{PlusSign, Query, decode, encode},
    request_info::RequestInfo,
};
