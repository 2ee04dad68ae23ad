//! Configuration: flags, environment variables, a file, defaults.
//!
//! Promises:
//! - A setting is one line of one table ([`keys`]): its name in the file, and its argument. Environment variable,
//!   description, default and possible values are derived from these.
//! - Flags override the environment, the environment overrides the file, the file overrides defaults.
//! - The whole file is validated, including settings that the command does not need; all errors are reported at once, with
//!   file, line and key, before the command starts.
//! - Secrets are never printed.

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
    command_line::{CommandEnvironment, CommandLineError, ServerLocation, read, read_server_location},
    example::example,
    settings::EffectiveConfig,
};
