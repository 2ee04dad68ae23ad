//! The project's own benchmarks. Each prints a table, writes JSON, and sets what it measured beside
//! what is asked of it.
//!
//! Results are those of `dist` builds. A debug build runs the same code, to see that it works.

mod api;
mod choices;
mod command;
mod cpu;
mod directories;
mod flags;
mod informer;
mod latency;
mod machine;
mod memory;
mod node;
mod queue;
mod requirement;
mod scheduler;
mod storage;
mod table;
mod workload;

use std::{error::Error, process::ExitCode};

use self::flags::{Command, HELP};

/// As in the k3 binary, so that what is measured here is what runs there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whatever stops a benchmark: it has no caller that could do better than print it.
type BenchError = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let command = match flags::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("the benchmark failed: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match command {
        Command::Help => {
            println!("{HELP}");
            Ok(())
        }
        Command::Api(options) => runtime.block_on(api::run(&options)),
        Command::Commands(options) => runtime.block_on(command::run(&options)),
        Command::Hostile(options) => runtime.block_on(api::hostile::run(&options)),
        Command::Informer(options) => runtime.block_on(informer::run(&options)),
        Command::Node(options) => runtime.block_on(node::run(&options)),
        Command::Queue(options) => runtime.block_on(queue::run(&options)),
        Command::Sync(options) => runtime.block_on(informer::sync(&options)),
        Command::Scheduler(options) => scheduler::run(&options),
        Command::Storage(options) => runtime.block_on(storage::run(&options)),
        Command::Workload(options) => runtime.block_on(workload::run(&options)),
        Command::Scale(options) => runtime.block_on(workload::scale::run(&options)),
        Command::Weigh(options) => runtime.block_on(storage::weigh(&options)),
    }
}
