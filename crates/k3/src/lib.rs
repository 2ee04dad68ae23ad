//! What the `k3` command is made of: a Kubernetes control plane in one process.
//!
//! Promises: 0 is success, 1 a failure, 2 a call that makes no sense; every error says what failed, where,
//! and what to do; secrets are never printed.

mod certificates;
mod commands;
mod control;
mod data_dir;
mod databases;
mod door;
mod duration;
mod failure;
mod kubeconfig;
mod limits;
mod log;
mod random;
mod secret_file;
mod server;
mod signals;
mod tls;

use std::process::ExitCode;

/// The whole command: does what the arguments of the process ask for.
pub fn main() -> ExitCode {
    limits::use_small_pages();
    match commands::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}
