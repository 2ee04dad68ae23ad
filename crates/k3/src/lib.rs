//! What the `k3` command is made of: a Kubernetes control plane in one process.
//!
//! Promises: 0 is success, 1 a failure, 2 a call that makes no sense; every error says what failed, where,
//! and what to do; secrets are never printed.

mod certificates;
mod commands;
mod config;
mod control;
mod data_dir;
mod databases;
mod door;
mod duration;
mod failure;
mod join;
mod kubeconfig;
mod limits;
mod log;
mod progress;
mod random;
mod runtime;
mod secret;
mod secret_file;
mod server;
mod signals;
mod test_env;
mod tls;

use std::{env, process::ExitCode};

pub use self::test_env::{TestEnv, TestEnvBuilder, TestEnvError, TestStorage};

/// The whole command: does what the arguments of the process ask for, under the name that it was called by.
pub fn main() -> ExitCode {
    limits::use_small_pages();
    limits::keep_owner_permissions();
    let mut arguments = env::args_os();
    let part = arguments.next().and_then(|name| commands::Part::called(&name));
    let done = match part {
        Some(part) => part.run(arguments),
        None => commands::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}
