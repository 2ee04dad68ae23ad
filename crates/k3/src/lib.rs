//! The `k3` command: a Kubernetes control plane in one process.
//!
//! Promises: exit code 0 is success, 1 a failure, 2 a usage error; every error describes what failed, why,
//! and what to do; secrets are never printed.

#![cfg_attr(not(test), deny(clippy::print_stdout))]

// Its macros are for all modules below.
#[macro_use]
mod stdout;

mod certificates;
mod client_factory;
mod commands;
mod config;
mod controller_manager;
mod data_dir;
mod databases;
mod duration;
mod failure;
mod file_format;
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

use self::failure::Failure;
pub use self::test_env::{TestEnv, TestEnvBuilder, TestEnvError, TestStorage};

/// Entry point of the program: runs `k3`, or the envtest program whose name it was started by.
pub fn main() -> ExitCode {
    limits::use_small_pages();
    silence_handled_panics();
    limits::keep_owner_permissions();
    let mut arguments = env::args_os();
    let program = arguments
        .next()
        .and_then(|name| commands::Program::from_name(&name));
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

/// A panic that the store turns into an error is reported as that error, and not printed too.
fn silence_handled_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !k3_storage::file::is_panic_handled() {
            print(panic);
        }
    }));
}

/// Fails if a part of the output could not be written.
fn check_output() -> Result<(), Failure> {
    match stdout::take_error() {
        None => Ok(()),
        Some(error) => Err(Failure::new(
            "failed to write to standard output",
            "check the disk or the program that reads the output",
        )
        .caused_by(error)),
    }
}
