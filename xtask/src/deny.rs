//! cargo-deny: licences, banned and duplicate crates, where crates come from; advisories where their database is at hand.
//!
//! What is allowed is in `deny.toml`. A cargo-deny that is missing is built from its sources, once, into the target
//! directory.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use k3_test_services::find_program;

use crate::{Outcome, step, workspace::Workspace};

/// The version that `deny.toml` is written for.
const VERSION: &str = "0.20.2";

/// Checks all dependencies.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let Some(program) = find(workspace.root()).or_else(|| install(workspace)) else {
        eprintln!("xtask: cargo-deny is missing and could not be installed");
        return Outcome::Failed;
    };
    // Crates of other platforms are looked at too, and a build has not downloaded them.
    if step::run(&mut workspace.cargo("fetch --quiet --locked")) == Outcome::Failed {
        return Outcome::Failed;
    }
    let mut command = Command::new(program);
    command.current_dir(workspace.root());
    command.args([
        "--offline",
        "--log-level",
        "error",
        "check",
        "--hide-inclusion-graph",
    ]);
    command.args(["bans", "licenses", "sources"]);
    if has_advisories() {
        command.arg("advisories");
    } else {
        println!("advisories are left out: there is no database of them on this machine");
    }
    step::run(&mut command)
}

fn find(root: &Path) -> Option<PathBuf> {
    let own = directory(root).join("bin/cargo-deny");
    if own.is_file() {
        return Some(own);
    }
    find_program("cargo-deny").filter(|program| has_version(program))
}

fn has_version(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION))
}

fn install(workspace: &Workspace) -> Option<PathBuf> {
    println!("building cargo-deny {VERSION}; this takes some minutes, once");
    let mut command = workspace.cargo("install --quiet --locked --debug cargo-deny");
    command.args(["--version", VERSION, "--root"]);
    command.arg(directory(workspace.root()));
    match step::run(&mut command) {
        Outcome::Done => find(workspace.root()),
        Outcome::Failed => None,
    }
}

/// Where tools of the project are installed.
fn directory(root: &Path) -> PathBuf {
    root.join("target/tools")
}

/// Whether a copy of the advisory database was fetched before.
fn has_advisories() -> bool {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    home.is_some_and(|home| home.join("advisory-dbs").is_dir())
}
