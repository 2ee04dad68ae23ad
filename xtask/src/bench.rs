//! `cargo xtask bench storage`: the stores, measured.

use crate::{Outcome, step, tools, workspace::Workspace};

/// What to measure, and how.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BenchOptions {
    /// Flags for the benchmark, which knows them.
    pub(crate) flags: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &BenchOptions) -> Outcome {
    tools::install_missing();
    // The benchmark starts its own services: it decides on which disk.
    let mut command = workspace.cargo("run --release --package k3-bench -- storage");
    step::run(command.args(&options.flags))
}
