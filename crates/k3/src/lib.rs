//! The `k3` command: a Kubernetes control plane in one process.
//!
//! Exit code 0 is success, 1 an error, 2 a usage error. Every error describes what failed, why, and what to do. Secrets are
//! never printed.

#![cfg_attr(not(test), deny(clippy::print_stdout))]

// First, because its macros are used in all modules below.
#[macro_use]
mod stdout;

mod certificates;
mod client_factory;
mod command_error;
mod commands;
mod config;
mod controller_manager;
mod data_dir;
mod databases;
mod duration;
mod file_format;
mod join;
mod kubeconfig;
mod limits;
mod log;
mod progress;
mod prose;
mod random;
mod runtime;
mod secret;
mod secret_file;
mod server;
mod setting_args;
mod signals;
mod test_env;
mod tls;

use std::{env, process::ExitCode};

use self::command_error::CommandError;
pub use self::test_env::{TestEnv, TestEnvBuilder, TestEnvError, TestStorage};

/// Entry point of the program: runs `k3`, or the envtest program whose name it was started by.
pub fn main() -> ExitCode {
    limits::use_small_pages();
    silence_handled_panics();
    limits::keep_owner_permissions();
    let mut arguments = env::args_os();
    let program = arguments
        .next()
        .and_then(|name| commands::EnvtestProgram::from_name(&name));
    let done = match program {
        Some(program) => program.run(arguments),
        None => commands::run(),
    };
    match done.and_then(|()| check_output()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

/// Suppresses the message of a panic that the store turns into an error.
fn silence_handled_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !k3_storage::file::is_panic_handled() {
            print(panic);
        }
    }));
}

/// Fails if writing to stdout failed.
fn check_output() -> Result<(), CommandError> {
    match stdout::take_error() {
        None => Ok(()),
        Some(error) => Err(CommandError::new(
            "failed to write to standard output",
            "check the disk or the program that reads the output",
        )
        .caused_by(error)),
    }
}
