//! What cannot be done is told in one line, with an exit code.

use crate::{
    cluster::TestCluster,
    program::{k3, outcome},
};

#[test]
fn what_is_asked_wrong_is_told_as_kubectl_tells_it() {
    let cluster = TestCluster::start();
    for (line, code, said) in [
        (
            "get pod nobody",
            1,
            "Error from server (NotFound): pods \"nobody\" not found\n",
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
        assert_eq!(cluster.k3_refused(line), (code, said.to_owned()), "{line}");
    }
    for line in [
        "get",
        "get pods -o xml",
        "get pods -o jsonpath={.a",
        "delete pods",
        "wait pod/web --for=luck",
        "scale deploy/web",
    ] {
        let (code, said) = cluster.k3_refused(line);
        assert_eq!(code, 2, "{line}: {said}");
    }
    // Invalid objects.
    let bad = cluster.file(
        "bad.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER}\n",
    );
    let (code, said) = cluster.k3_refused(&format!("apply -f {}", bad.display()));
    assert_eq!(code, 1);
    assert!(
        said.contains("The ConfigMap \"UPPER\" is invalid: metadata.name: Invalid value"),
        "{said}"
    );
    // Of a kind that nobody knows, before anything is sent.
    let unknown = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n---\napiVersion: x.y/v1\nkind: Z\nmetadata: {name: a}\n";
    let file = cluster.file("unknown.yaml", unknown);
    let (_, said) = cluster.k3_refused(&format!("apply -f {}", file.display()));
    assert!(
        said.contains("no matches for kind \"Z\" in version \"x.y/v1\""),
        "{said}"
    );
    assert_eq!(cluster.k3("get cm first --ignore-not-found"), "");
    // A pod that no node runs.
    cluster.kubectl("run web --image=nginx");
    assert_eq!(cluster.k3("logs web"), "");
    let (_, said) = cluster.k3_refused("exec web -- ls");
    assert!(said.contains("does not have a host assigned"), "{said}");
    let (_, said) = cluster.k3_refused("wait pod/web --for=condition=Ready --timeout=1s");
    assert_eq!(said, "error: timed out waiting for the condition on pods/web\n");
    // Somebody without rights.
    let (_, said) = cluster.k3_refused("get secrets --as=nobody");
    assert!(
        said.starts_with("Error from server (Forbidden): secrets is forbidden: User \"nobody\""),
        "{said}"
    );
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let (code, _, said) = outcome(&mut k3(&[
        "get",
        "pods",
        "--server=https://127.0.0.1:1",
        "--insecure-skip-tls-verify",
    ]));
    assert_eq!(code, Some(1));
    assert_eq!(
        said,
        "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n"
    );
}

#[test]
fn flags_say_where_the_server_is() {
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
    let (code, _, said) = outcome(cluster.own("get").args(["pods", &server, &token]));
    assert_eq!(code, Some(1));
    assert!(
        said.contains("User \"alice\" cannot list resource \"pods\""),
        "{said}"
    );
    // They may stand before the command too.
    let (_, _, said) = outcome(
        cluster
            .own("-n")
            .args(["kube-system", &server, &token, "get", "pods"]),
    );
    assert!(said.contains("in the namespace \"kube-system\""), "{said}");
    // Without any kubeconfig, the data directory's counts.
    let (code, output, said) = outcome(
        cluster
            .own("get")
            .args(["ns", "default", "-o", "name", "--data-dir"])
            .arg(cluster.path(""))
            .env_remove("KUBECONFIG"),
    );
    assert_eq!(
        (code, output.as_str()),
        (Some(0), "namespace/default\n"),
        "{said}"
    );
}
