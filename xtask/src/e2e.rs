//! `cargo xtask e2e`: k3 with real container runtimes, driven by kubectl as users do. `cargo xtask test` runs the same among all
//! others.

use crate::{
    Outcome,
    test::{self, TestOptions},
    workspace::Workspace,
};

/// The tests that start k3 on Docker, Podman and containerd.
const SELECTION: [&str; 6] = ["-p", "k3", "--test", "kubectl", "--", "containers::"];

pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let options = TestOptions {
        skip_check: true,
        selection: SELECTION.map(str::to_owned).into(),
        ..TestOptions::default()
    };
    test::run(workspace, &options)
}
