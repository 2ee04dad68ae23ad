//! `cargo xtask check`: everything that can be said about the code without running it.

use crate::{
    Outcome,
    counts::Counts,
    deny, step,
    tidy::{self, TidyOptions},
    workspace::Workspace,
};

pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let counts = count(workspace);
    println!("check: {counts}");
    if counts.failed == 0 {
        Outcome::Done
    } else {
        Outcome::Failed
    }
}

/// Runs all checks, also after one failed; each counts as one.
pub(crate) fn count(workspace: &Workspace) -> Counts {
    let format = step::run(&mut workspace.cargo("fmt --all --check"));
    let lints = step::run(&mut workspace.cargo("clippy --quiet --workspace --all-targets -- -D warnings"));
    let docs = step::run(
        workspace
            .cargo("doc --quiet --no-deps --workspace")
            .env("RUSTDOCFLAGS", "-D warnings"),
    );
    let dependencies = deny::run(workspace);
    [
        format,
        lints,
        docs,
        tidy::run(workspace, &TidyOptions::default()),
        dependencies,
    ]
    .map(Counts::of)
    .into_iter()
    .sum()
}
