//! `k3 test-env` as a user runs it.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{
    DEFINITION,
    program::{k3, outcome},
};

/// A call with a directory for temporary files of its own, in which nothing is to be left.
struct TestEnvCall {
    temporary: TempDir,
}

impl TestEnvCall {
    fn new() -> Self {
        TestEnvCall {
            temporary: tempfile::tempdir().unwrap(),
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = k3(&["test-env"]);
        command.args(args).env("TMPDIR", self.temporary.path());
        command
    }

    /// Runs it with a script to its end: its exit code and what was printed.
    fn script(&self, args: &[&str], script: &str) -> (Option<i32>, String) {
        let mut args = args.to_vec();
        args.extend(["--", "sh", "-c", script]);
        let (code, output, errors) = outcome(&mut self.command(&args));
        self.expect_nothing_left();
        (code, output + &errors)
    }

    /// Starts it with a script, and waits until the script reports that it is ready.
    fn begin(&self, script: &str) -> (Child, BufReader<impl Read + use<>>) {
        let mut command = self.command(&["--", "sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        (child, output)
    }

    fn expect_nothing_left(&self) {
        let left: Vec<_> = fs::read_dir(self.temporary.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn returns_the_exit_code_of_the_command() {
    let call = TestEnvCall::new();
    assert_eq!(call.script(&[], "exit 0").0, Some(0));
    assert_eq!(call.script(&[], "exit 7").0, Some(7));
    assert_eq!(call.script(&["--controllers="], "kill -KILL $$").0, Some(128 + 9));
    let (code, _, errors) = outcome(&mut call.command(&["--controllers=", "--", "no-such-command"]));
    assert_eq!(code, Some(127));
    assert!(errors.contains("no-such-command"), "{errors}");
    let (code, _, errors) = outcome(&mut call.command(&["--controllers=", "--", "/"]));
    assert_eq!(code, Some(126), "{errors}");
    call.expect_nothing_left();
}

#[test]
fn usage_errors_start_nothing() {
    let call = TestEnvCall::new();
    for args in [
        &[][..],
        &["--storage=tape", "--", "true"],
        &["--controllers=no-such", "--", "true"],
    ] {
        let (code, _, errors) = outcome(&mut call.command(args));
        assert_eq!(code, Some(2), "{args:?}: {errors}");
    }
    let (code, _, errors) = outcome(&mut call.command(&["--crds=/no/such", "--", "echo", "begun"]));
    assert_eq!(code, Some(1));
    assert!(errors.contains("/no/such"), "{errors}");
    call.expect_nothing_left();
}

#[test]
fn the_cluster_is_ready_with_its_definitions() {
    let call = TestEnvCall::new();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("widgets.yaml"), DEFINITION).unwrap();
    let script = r#"
        set -e
        kubectl get serviceaccount default -o name
        echo '{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}' |
            kubectl create -f -
        kubectl get widgets -o name
        kubectl create deployment web --image=web
        kubectl rollout status deployment web --timeout=2m
        kubectl get nodes -o name
    "#;
    let crds = format!("--crds={}", directory.path().display());
    let (code, output) = call.script(&[&crds, "--simulated-nodes=2", "--storage=file"], script);
    assert_eq!(code, Some(0), "{output}");
    for text in [
        "serviceaccount/default",
        "widget.example.com/w\n",
        "successfully rolled out",
        "node/simulated-1",
    ] {
        assert!(output.contains(text), "{text} is not in: {output}");
    }
}

#[test]
fn forwards_signals_to_the_command() {
    let call = TestEnvCall::new();
    let script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let (mut child, mut output) = call.begin(script);
    send(&child, Signal::TERM);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "asked\n");
    assert_eq!(child.wait().unwrap().code(), Some(3));
    call.expect_nothing_left();
}

#[test]
fn kills_a_command_that_ignores_signals() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let call = TestEnvCall::new();
        let (mut child, _output) = call.begin("echo ready; exec sleep 1000");
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        call.expect_nothing_left();
    }
}

#[test]
fn concurrent_clusters_are_independent() {
    let script = r#"
        set -e
        kubectl create configmap only-one --from-literal=server="$KUBECONFIG" -o name
        test "$(kubectl get configmaps -o name | grep -c only-one)" = 1
        echo "$KUBECONFIG"
    "#;
    let call = TestEnvCall::new();
    let started: Vec<_> = (0..10)
        .map(|_| {
            let mut command = call.command(&["--", "sh", "-c", script]);
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut paths: Vec<_> = started
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{errors}");
            let printed = String::from_utf8(output.stdout).unwrap();
            let path = printed.lines().last().unwrap().to_owned();
            assert!(Path::new(&path).starts_with(call.temporary.path()), "{path}");
            path
        })
        .collect();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 10);
    call.expect_nothing_left();
}
