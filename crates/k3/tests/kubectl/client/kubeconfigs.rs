//! Kubeconfigs are printed, merged and switched.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::{cluster::TestCluster, program::outcome};

#[test]
fn kubeconfigs_are_merged_printed_and_switched() {
    let cluster = TestCluster::start();
    let k3_command_for = cluster.path(".kube/config");
    let run = |line: &str| {
        let mut command = cluster.k3_command_for("kubeconfig");
        command.args(line.split(' ')).env("KUBECONFIG", &k3_command_for);
        outcome(&mut command)
    };
    let admin = cluster.path("admin.kubeconfig");
    let (code, output, errors) = run(&format!("merge {admin}"));
    assert_eq!(code, Some(0), "{errors}");
    assert!(output.contains("current context: \"k3\""), "{output}");
    assert_eq!(
        fs::metadata(&k3_command_for).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // The same again under another name, and back.
    assert_eq!(run(&format!("merge {admin} --name second")).0, Some(0));
    assert_eq!(run("current").1, "second\n");
    assert_eq!(run("use k3").1, "Switched to context \"k3\".\n");
    assert_eq!(
        run("use nowhere").2,
        "error: no context exists with the name: \"nowhere\"\n"
    );
    assert_eq!(run("namespace kube-system").1, "Context \"k3\" modified.\n");
    let contexts = run("contexts").1;
    let columns: Vec<Vec<&str>> = contexts
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(columns[1], ["*", "k3", "k3", "admin", "kube-system"]);
    assert_eq!(columns[2], ["second", "second", "second-admin"]);

    let printed = run("print --minify").1;
    assert!(
        printed.contains("DATA+OMITTED") && !printed.contains("second"),
        "{printed}"
    );
    assert!(run("print --raw").1.contains("client-key-data: "));
    // kubectl reads what was written, and means the same.
    let mut kubectl = cluster.command();
    let (_, seen, errors) = outcome(
        kubectl
            .args(["config", "current-context"])
            .env("KUBECONFIG", &k3_command_for),
    );
    assert_eq!((seen.as_str(), errors.as_str()), ("k3\n", ""));
    let mut command = cluster.k3_command_for("get");
    let (code, output, errors) = outcome(
        command
            .args(["sa", "-o", "name", "--context", "second"])
            .env("KUBECONFIG", &k3_command_for),
    );
    assert_eq!(
        (code, output.as_str()),
        (Some(0), "serviceaccount/default\n"),
        "{errors}"
    );
}
