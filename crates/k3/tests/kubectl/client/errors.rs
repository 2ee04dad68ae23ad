//! Errors are one line with an exit code.

use crate::{
    cluster::TestCluster,
    program::{k3, outcome},
};

#[test]
fn errors_match_kubectl() {
    let cluster = TestCluster::start();
    for (line, code, message) in [
        (
            "get pod missing",
            1,
            "Error from server (NotFound): pods \"missing\" not found\n",
        ),
        (
            "get gadgets",
            1,
            "error: the server doesn't have a resource type \"gadgets\"\n",
        ),
        (
            "describe deploy web",
            1,
            "Error from server (NotFound): deployments.apps \"web\" not found\n",
        ),
        (
            "scale deploy/web --replicas=2",
            1,
            "Error from server (NotFound): deployments.apps \"web\" not found\n",
        ),
        (
            "rollout status deploy/web",
            1,
            "Error from server (NotFound): deployments.apps \"web\" not found\n",
        ),
        (
            "wait pod/web --for=condition=Ready",
            1,
            "Error from server (NotFound): pods \"web\" not found\n",
        ),
        (
            "apply -f nowhere.yaml",
            1,
            "error: the path \"nowhere.yaml\" does not exist\n",
        ),
        ("top pods", 1, "error: Metrics API not available\n"),
        (
            "logs web",
            1,
            "Error from server (NotFound): pods \"web\" not found\n",
        ),
        (
            "get pods --context=other",
            1,
            "error: context \"other\" does not exist\n",
        ),
    ] {
        assert_eq!(cluster.k3_error(line), (code, message.to_owned()), "{line}");
    }
    for line in [
        "get",
        "get pods -o xml",
        "get pods -o jsonpath={.a",
        "delete pods",
        "wait pod/web --for=luck",
        "scale deploy/web",
    ] {
        let (code, message) = cluster.k3_error(line);
        assert_eq!(code, 2, "{line}: {message}");
    }
    // Invalid objects.
    let bad = cluster.file(
        "bad.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER}\n",
    );
    let (code, message) = cluster.k3_error(&format!("apply -f {}", bad.display()));
    assert_eq!(code, 1);
    assert!(
        message.contains("The ConfigMap \"UPPER\" is invalid: metadata.name: Invalid value"),
        "{message}"
    );
    // An unknown kind is reported before anything is sent.
    let unknown = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n---\napiVersion: x.y/v1\nkind: Z\nmetadata: {name: a}\n";
    let file = cluster.file("unknown.yaml", unknown);
    let (_, message) = cluster.k3_error(&format!("apply -f {}", file.display()));
    assert!(
        message.contains("no matches for kind \"Z\" in version \"x.y/v1\""),
        "{message}"
    );
    assert_eq!(cluster.k3("get cm first --ignore-not-found"), "");
    // A pod that no node runs.
    cluster.kubectl("run web --image=nginx");
    assert_eq!(cluster.k3("logs web"), "");
    let (_, message) = cluster.k3_error("exec web -- ls");
    assert!(message.contains("does not have a host assigned"), "{message}");
    let (_, message) = cluster.k3_error("wait pod/web --for=condition=Ready --timeout=1s");
    assert_eq!(
        message,
        "error: timed out waiting for the condition on pods/web\n"
    );
    // A user without permissions.
    let (_, message) = cluster.k3_error("get secrets --as=alice");
    assert!(
        message.starts_with("Error from server (Forbidden): secrets is forbidden: User \"alice\""),
        "{message}"
    );
}

#[test]
fn reports_an_unreachable_server() {
    let (code, _, message) = outcome(&mut k3(&[
        "get",
        "pods",
        "--server=https://127.0.0.1:1",
        "--insecure-skip-tls-verify",
    ]));
    assert_eq!(code, Some(1));
    assert_eq!(
        message,
        "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n"
    );
}

#[test]
fn flags_select_the_server() {
    let cluster = TestCluster::start();
    let text = cluster.kubeconfig();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
        line.unwrap().trim().to_owned()
    };
    let token = outcome(&mut cluster.token("create --user alice --ttl 1h"));
    assert_eq!(token.0, Some(0), "{}", token.2);
    let server = format!("--server={}", field("server:"));
    let token = format!("--token={}", token.1.trim());
    let (code, _, message) = outcome(cluster.k3_command_for("get").args(["pods", &server, &token]));
    assert_eq!(code, Some(1));
    assert!(
        message.contains("User \"alice\" cannot list resource \"pods\""),
        "{message}"
    );
    // Connection flags may precede the command.
    let (_, _, message) =
        outcome(
            cluster
                .k3_command_for("-n")
                .args(["kube-system", &server, &token, "get", "pods"]),
        );
    assert!(message.contains("in the namespace \"kube-system\""), "{message}");
    // Without a kubeconfig, that of the data directory is used.
    let (code, output, message) = outcome(
        cluster
            .k3_command_for("get")
            .args(["ns", "default", "-o", "name", "--data-dir"])
            .arg(cluster.path(""))
            .env_remove("KUBECONFIG"),
    );
    assert_eq!(
        (code, output.as_str()),
        (Some(0), "namespace/default\n"),
        "{message}"
    );
}
