//! The project's chores: `cargo xtask check | tidy | test | golden | e2e | bench`.
//!
//! Promises: a chore that fails names the step and exits with 1, a usage error exits with 2; what a chore
//! starts it ends, also on Ctrl-C; continuous integration runs the same chores and no others.

mod architecture_paths;
mod bench;
mod blocking_io;
mod certificate_code;
mod check;
mod command;
mod counts;
mod deny;
mod e2e;
mod golden;
mod paired_bindings;
mod services;
mod signatures;
mod source_files;
mod step;
mod test;
mod tidy;
mod tools;
mod unused;
mod upstream_references;
mod vocabulary;
mod workspace;

use std::{env, process::ExitCode};

use crate::{
    command::{Command, parse},
    workspace::Workspace,
};

/// How a chore ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Failed,
}

fn main() -> ExitCode {
    let command = match parse(env::args().skip(1)) {
        Ok(command) => command,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    let workspace = Workspace::new();
    let outcome = match command {
        Command::Help(text) => {
            print!("{text}");
            Outcome::Done
        }
        Command::Check => check::run(&workspace),
        Command::Tidy(options) => tidy::run(&workspace, &options),
        Command::Test(options) => test::run(&workspace, &options),
        Command::Golden(options) => golden::run(&workspace, &options),
        Command::EndToEnd => e2e::run(&workspace),
        Command::Bench(options) => bench::run(&workspace, &options),
    };
    match outcome {
        Outcome::Done => ExitCode::SUCCESS,
        Outcome::Failed => ExitCode::FAILURE,
    }
}
