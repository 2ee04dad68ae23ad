//! What a first start prints: about ten lines, no errors, and the next command last.

use std::time::Duration;

use kubecontroller::testing::eventually_within;

use crate::program::{TestDataDir, k3};

/// A server with controllers on a slow machine.
const LIMIT: Duration = Duration::from_mins(1);

fn next_command(log: &str) -> Option<&str> {
    log.lines()
        .find(|line| line.contains("next, in another terminal: "))
}

#[tokio::test]
async fn a_first_start_prints_about_ten_lines_and_the_next_command_last() {
    let data = TestDataDir::new();
    let server = data.start(&["--simulated-nodes", "1"]);
    eventually_within(LIMIT, async || {
        let log = data.log();
        next_command(&log).map(|_| ()).ok_or(log)
    })
    .await;
    let log = data.log();
    for line in [
        "starting k3 version=",
        "using data directory path=",
        "opened store storage=file:",
        "serving the API address=\"https://127.0.0.1:",
        "controllers",
        "ready in ",
    ] {
        assert!(log.contains(line), "{line} is missing in:\n{log}");
    }
    let last = log.lines().last().unwrap();
    assert_eq!(next_command(&log), Some(last), "{log}");
    let command = format!(
        "export KUBECONFIG={}; kubectl get nodes",
        server.kubeconfig.display()
    );
    assert!(last.ends_with(&command), "{last}");
    assert!(log.lines().count() <= 12, "{log}");
}

#[tokio::test]
async fn a_first_start_logs_no_errors_while_controllers_start() {
    for _ in 0..3 {
        let data = TestDataDir::new();
        let server = data.start(&["--simulated-nodes", "1"]);
        // The node is Ready when scheduler, simulator and node lifecycle work.
        eventually_within(LIMIT, async || {
            let mut command = k3(&["get", "nodes", "--kubeconfig"]);
            let output = command.arg(&server.kubeconfig).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let is_ready = text.contains(" Ready ");
            is_ready.then_some(()).ok_or(text)
        })
        .await;
        let log = data.log();
        assert!(!log.contains("ERROR"), "{log}");
        assert!(!log.contains("started controller="), "{log}");
    }
}

#[test]
fn a_start_without_a_container_runtime_names_both_ways_out() {
    let data = TestDataDir::new();
    let mut command = k3(&[
        "start",
        "--secure-port",
        "0",
        "--node-port",
        "0",
        "--runtime",
        "docker",
    ]);
    command
        .args(["--runtime-endpoint", "/nonexistent/docker.sock", "--data-dir"])
        .arg(data.path());
    let _server = data.serve(command);
    let log = data.log();
    let line = log
        .lines()
        .find(|line| line.contains("no container runtime found"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("install and start one of docker"), "{line}");
    assert!(line.contains("--simulated-nodes 1"), "{line}");
}
