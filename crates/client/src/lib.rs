//! The kubectl-like commands for machines without kubectl: `get`, `apply`, `logs`, `exec` and more.
//!
//! They work with any cluster and any kind, custom resources included, because they use the server's discovery; nothing is
//! cached on disk. Output and messages have kubectl's format. Results go to stdout; an error is one line on stderr.

mod age;
mod api;
mod api_resource;
mod command;
mod command_line;
mod commands;
mod connection;
mod discovery;
mod error;
mod manifests;
mod output;
mod resource_builder;
mod session;
mod stdout;
mod table;
#[cfg(test)]
mod testing;
mod watch;
mod yaml;

pub use self::{
    command::ClientCommand,
    command_line::move_connection_flags,
    connection::ConnectFlags,
    error::{ClientError, with_causes},
    session::ClientDefaults,
};
