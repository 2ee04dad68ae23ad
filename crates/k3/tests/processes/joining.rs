//! Machines that become nodes.

use std::path::Path;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kubecontroller::testing::eventually;

use crate::{
    process::{Process, client},
    program::{Data, k3, outcome},
};

/// No runtime is there, so that a node registers and is not ready, whatever this machine has.
const NO_RUNTIME: [&str; 4] = [
    "--runtime=docker",
    "--runtime-endpoint=/nowhere",
    "--node-port=0",
    "--node-name=n2",
];

fn node<'a>(data: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["node", "--data-dir", data.to_str().unwrap()];
    args.extend(NO_RUNTIME);
    args.extend(more);
    args
}

#[tokio::test]
async fn a_machine_joins_with_a_token_once_and_needs_none_again() {
    let cluster = Data::new();
    let server = cluster.start(&["--storage=memory"]);
    let client = client(&server.kubeconfig).await;
    let nodes = Api::<Node>::all(client.clone());
    let kubeconfig = server.kubeconfig.to_str().unwrap();
    let (code, line, errors) = outcome(&mut k3(&[
        "token",
        "create",
        "--join",
        "--kubeconfig",
        kubeconfig,
    ]));
    assert_eq!(code, Some(0), "{errors}");
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["k3", "node", "--server", _, "--token", token] = words[..] else {
        panic!("{line}");
    };
    // The server listens on this machine alone.
    let url = format!("https://127.0.0.1:{}", server.port());
    let machine = Data::new();

    let another = token.replace(
        &token[2..10],
        if token[2..].starts_with("00000000") {
            "11111111"
        } else {
            "00000000"
        },
    );
    let args = node(machine.path(), &["--server", &url, "--token", &another]);
    let (code, _, errors) = outcome(&mut k3(&args));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("another authority"), "{errors}");

    let unknown = format!("{}::zzzzzz.zzzzzzzzzzzzzzzz", token.split_once("::").unwrap().0);
    let args = node(machine.path(), &["--server", &url, "--token", &unknown]);
    let (code, _, errors) = outcome(&mut k3(&args));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("expired"), "{errors}");

    let first = Process::start(
        machine.path(),
        &node(machine.path(), &["--server", &url, "--token", token]),
    );
    let uid = async || Some(nodes.get_opt("n2").await.unwrap()?.metadata.uid);
    let known = eventually(uid).await;
    let (code, log) = first.end();
    assert_eq!(code, Some(0), "{log}");

    let other = Data::new();
    let args = node(other.path(), &["--server", &url, "--token", token]);
    let (code, _, errors) = outcome(&mut k3(&args));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("has a node n2 already"), "{errors}");

    nodes
        .delete("n2", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let _second = Process::start(machine.path(), &node(machine.path(), &[]));
    let again = eventually(uid).await;
    assert_ne!(again, known);
}
