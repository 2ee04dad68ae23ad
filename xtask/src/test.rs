//! `cargo xtask test`: everything that must hold, and the closing line `N passed, N failed`.

use std::{
    io::{IsTerminal, stderr},
    process::{Command, Stdio},
};

use crate::{
    Outcome, check,
    counts::Counts,
    golden::{self, GoldenOptions},
    services::Services,
    step::{self, Ran},
    tools,
    workspace::Workspace,
};

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestOptions {
    /// Leave out `check`.
    pub(crate) skip_check: bool,
    /// For how many seconds each fuzz test runs.
    pub(crate) fuzz_seconds: u64,
    /// Arguments for the test runner; when there are any, only the tests that they select are run.
    pub(crate) selection: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &TestOptions) -> Outcome {
    tools::install_missing();
    let services = Services::start();
    let mut parts = Vec::new();
    let missing = Counts {
        failed: services.problems.len(),
        ..Counts::default()
    };
    parts.push(("services", missing));
    if !options.skip_check {
        parts.push(("check", check::count(workspace)));
    }
    parts.push(("tests", tests(workspace, &services, options)));
    if options.selection.is_empty() {
        let with_tests = GoldenOptions {
            with_tests: true,
            ..GoldenOptions::default()
        };
        parts.push(("doc tests", doc_tests(workspace, &services)));
        parts.push(("golden", golden::count(workspace, &with_tests)));
    }
    println!();
    for problem in &services.problems {
        println!("{problem}");
    }
    drop(services);
    conclude(&parts)
}

/// All tests but the doc tests, which nextest does not know.
fn tests(workspace: &Workspace, services: &Services, options: &TestOptions) -> Counts {
    let run = |command: &mut Command| {
        let command = command.args(options.packages()).args(&options.selection);
        run_with(
            services,
            command.env("K3_FUZZ_SECONDS", options.fuzz_seconds.to_string()),
        )
    };
    if has_nextest(workspace) {
        let colour = if stderr().is_terminal() { "always" } else { "never" };
        let mut command = workspace.cargo(&format!("nextest run --no-fail-fast --color {colour}"));
        let ran = run(&mut command);
        return Counts::at_least(Counts::from_nextest(&ran.output), ran.outcome);
    }
    let mut command = workspace.cargo("test --no-fail-fast --lib --bins --tests");
    let ran = run(&mut command);
    Counts::at_least(Counts::from_libtest(&ran.output), ran.outcome)
}

fn doc_tests(workspace: &Workspace, services: &Services) -> Counts {
    let ran = run_with(
        services,
        &mut workspace.cargo("test --workspace --no-fail-fast --doc"),
    );
    Counts::at_least(Counts::from_libtest(&ran.output), ran.outcome)
}

fn run_with(services: &Services, command: &mut Command) -> Ran {
    step::run_and_keep(command.envs(services.variables.iter().map(|(name, value)| (name, value))))
}

fn has_nextest(workspace: &Workspace) -> bool {
    workspace
        .cargo("nextest --version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Prints the sum; its last line is what machines read.
fn conclude(parts: &[(&str, Counts)]) -> Outcome {
    for (name, counts) in parts.iter().filter(|(_, counts)| *counts != Counts::default()) {
        println!("{name:<10} {counts}");
    }
    let sum: Counts = parts.iter().map(|(_, counts)| *counts).sum();
    println!("{sum}");
    if sum.failed == 0 {
        Outcome::Done
    } else {
        Outcome::Failed
    }
}

// --- TestOptions ---

impl TestOptions {
    /// Every package, unless the selection names some: the default members of the workspace are the program alone, and
    /// `--workspace` would overrule a `--package` of the selection.
    fn packages(&self) -> Option<&'static str> {
        let names_package = |argument: &String| {
            argument.starts_with("-p")
                || argument.starts_with("--package")
                || argument.starts_with("--manifest-path")
        };
        (!self.selection.iter().any(names_package)).then_some("--workspace")
    }
}

impl Default for TestOptions {
    fn default() -> Self {
        Self {
            skip_check: false,
            fuzz_seconds: 30,
            selection: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_the_tests_of_every_package_unless_some_are_named() {
        let packages = |selection: &[&str]| {
            let options = TestOptions {
                selection: selection.iter().map(|&argument| argument.to_owned()).collect(),
                ..TestOptions::default()
            };
            options.packages()
        };
        assert_eq!(packages(&[]), Some("--workspace"));
        assert_eq!(packages(&["watch"]), Some("--workspace"));
        assert_eq!(packages(&["-p", "k3-storage", "watch"]), None);
        assert_eq!(packages(&["--package=k3-storage"]), None);
    }

    #[test]
    fn one_failure_anywhere_fails_the_run() {
        let good = Counts {
            passed: 5,
            ..Counts::default()
        };
        assert_eq!(conclude(&[("tests", good), ("check", good)]), Outcome::Done);
        assert_eq!(
            conclude(&[("tests", good), ("check", Counts::of(Outcome::Failed))]),
            Outcome::Failed
        );
    }
}
