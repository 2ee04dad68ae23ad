//! `cargo xtask bench`: the stores, the API server, commands, informers, the node agent, queues, the scheduler or all controllers, measured;
//! or the API server, attacked.

use crate::{Outcome, step, tools, workspace::Workspace};

/// What to measure, and how.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BenchOptions {
    pub(crate) benchmark: Benchmark,
    /// Flags for the benchmark, which knows them.
    pub(crate) flags: Vec<String>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Benchmark {
    Api,
    Command,
    Hostile,
    Informer,
    Node,
    Queue,
    Scale,
    Scheduler,
    Storage,
    Workload,
}

pub(crate) fn run(workspace: &Workspace, options: &BenchOptions) -> Outcome {
    let name = match options.benchmark {
        Benchmark::Api
        | Benchmark::Command
        | Benchmark::Hostile
        | Benchmark::Informer
        | Benchmark::Node
        | Benchmark::Scale
        | Benchmark::Workload => {
            // It ends up beside the benchmark, which looks for it there.
            let build = &mut workspace.cargo("build --profile dist --package k3");
            if options.needs_server() && step::run(build) == Outcome::Failed {
                return Outcome::Failed;
            }
            match options.benchmark {
                Benchmark::Command => {
                    // The benchmark starts databases of its own.
                    tools::install_missing();
                    "command"
                }
                Benchmark::Node => {
                    // The benchmark starts runtimes of its own.
                    tools::install_missing();
                    "node"
                }
                Benchmark::Hostile => "hostile",
                Benchmark::Informer => "informer",
                Benchmark::Scale => "scale",
                Benchmark::Workload => "workload",
                _ => "api",
            }
        }
        Benchmark::Queue => "queue",
        Benchmark::Scheduler => "scheduler",
        Benchmark::Storage => {
            // The benchmark starts its own services: it decides on which disk.
            tools::install_missing();
            "storage"
        }
    };
    let mut command = workspace.cargo("run --profile dist --package k3-bench --");
    step::run(command.arg(name).args(&options.flags))
}

// --- BenchOptions ---

impl BenchOptions {
    /// Whether k3 is to be built: not for a text, nor when one is given.
    fn needs_server(&self) -> bool {
        let mut flags = self.flags.iter();
        !flags.any(|flag| matches!(flag.as_str(), "--binary" | "--help" | "-h"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_given_is_not_built() {
        let needs = |flags: &[&str]| {
            let options = BenchOptions {
                benchmark: Benchmark::Api,
                flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            };
            options.needs_server()
        };
        assert!(needs(&["--quick"]));
        assert!(!needs(&["--quick", "--binary", "k3"]));
        assert!(!needs(&["--help"]));
    }
}
