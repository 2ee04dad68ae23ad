//! What the commands are told: by flags, by the environment, by a file, else by defaults.
//!
//! Promises:
//! - A setting is one line of one table ([`keys`]): its name in the file, and the argument that takes it. All else follows
//!   from the two: its variable in the environment, its meaning, its default, what it may be.
//! - A flag goes before the environment, the environment before the file, the file before the default.
//! - What the file says is checked whole, also what this command does not need; everything that is wrong is told at once,
//!   with file, line and key, before anything is done.
//! - Secrets are not shown.

mod clap_args;
mod command_line;
mod configured_value;
mod conflicts;
mod example;
mod file;
mod keys;
mod settings;
#[cfg(test)]
mod tests;
mod value;
mod variables;

pub(crate) use self::{
    clap_args::{args, documented},
    command_line::{CommandLineError, Environment, ServerLocation, read, read_server_location},
    example::example,
    settings::Settings,
};
