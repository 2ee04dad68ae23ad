//! The commands of everyday work with a cluster, for machines without kubectl: `get`, `apply`, `logs`, `exec` and their kin.
//!
//! Promises: any cluster and any kind will do, custom ones too: what there is, is asked of the server; nothing is cached on
//! disk. What people and scripts read is said in kubectl's words. Standard output has the answer and nothing else; a failure
//! is one line on standard error.

mod age;
mod api;
mod command;
mod commands;
mod connection;
mod discovery;
mod documents;
mod failed;
mod jsonpath;
mod line;
mod output;
mod pick;
mod resource;
mod screen;
mod session;
mod table;
mod watch;
mod yaml;

pub use self::{
    command::ClientCommand,
    connection::ConnectFlags,
    failed::{Failed, with_causes},
    line::in_order,
    session::Surroundings,
};
