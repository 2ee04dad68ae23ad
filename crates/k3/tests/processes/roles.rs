//! `k3 run` and the roles it knows.

use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::ListParams};

use crate::{
    process::{ServerProcess, client},
    program::{TestDataDir, k3, outcome},
};

#[test]
fn an_unknown_role_exits_with_2() {
    let (code, output, errors) = outcome(&mut k3(&["run", "--role", "chief"]));
    assert_eq!((code, &*output), (Some(2), ""), "{errors}");
    assert!(errors.contains("master, node or one"), "{errors}");
}

#[test]
fn usage_errors_exit_with_2_and_a_reason() {
    for (args, text) in [
        (&["storage"][..], "--storage etcd"),
        (&["node", "--token", "x"], "--server"),
        (
            &["node", "--server", "https://127.0.0.1:1", "--token", "x"],
            "--join",
        ),
        (&["scheduler", "--server", "https://127.0.0.1:1"], "--token"),
        (&["scheduler", "--server", "localhost"], "https://"),
        (&["controller", "--controllers="], "selects no controller"),
    ] {
        let data = TestDataDir::new();
        let (code, _, errors) = outcome(k3(args).arg("--data-dir").arg(data.path()));
        assert_eq!(code, Some(2), "{args:?}: {errors}");
        assert!(errors.contains(text), "{args:?}: {errors}");
    }
}

#[test]
fn an_unjoined_node_explains_how_to_join() {
    let data = TestDataDir::new();
    let (code, _, errors) = outcome(k3(&["node", "--data-dir"]).arg(data.path()));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("k3 token create --join"), "{errors}");
}

#[tokio::test]
async fn a_master_runs_without_a_node() {
    let data = TestDataDir::new();
    let out = data.path().join("admin");
    let directory = data.path().to_str().unwrap();
    let args = [
        "run",
        "--role",
        "Master",
        "--storage=memory",
        "--secure-port=0",
        "--data-dir",
        directory,
        "--kubeconfig-out",
        out.to_str().unwrap(),
    ];
    let master = ServerProcess::start(data.path(), &args);
    kubecontroller::testing::eventually(async || out.exists()).await;
    let client = client(&out).await;
    let groups = client.list_api_groups().await.unwrap().groups;
    assert!(groups.iter().any(|group| group.name == "metrics.k8s.io"));
    let nodes = Api::<Node>::all(client)
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(nodes.items.is_empty());
    let (code, log) = master.end();
    assert_eq!(code, Some(0), "{log}");
    let mut rest = &*log;
    for line in [
        "starting k3",
        "using data directory",
        "opened store",
        "serving the API",
        "starting",
        "ready in",
        "stopping",
        "stopped controllers and node",
        "stopped the API server",
    ] {
        let at = rest.find(line);
        rest = &rest[at.unwrap_or_else(|| panic!("{line} is missing or too early in: {log}"))..];
    }
}
