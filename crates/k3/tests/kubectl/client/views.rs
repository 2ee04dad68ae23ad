//! What there is, in every form.

use serde_json::Value;

use crate::cluster::{POD, TestCluster};

#[test]
fn output_matches_kubectl() {
    let cluster = TestCluster::start();
    let file = cluster.file("pod.yaml", POD);
    cluster.kubectl(&format!("create -f {}", file.display()));
    cluster.kubectl("create configmap one --from-literal=key=before");
    cluster.kubectl("create service clusterip web --tcp=80:80");
    for line in [
        "api-resources",
        "api-versions",
        "api-resources --namespaced=false -o name",
        "api-resources --api-group=apps -o wide",
        "get pods -o name",
        "get pods,cm -o name",
        "get pod web -o json",
        "get pod web -o yaml",
        "get cm -A -o yaml",
        "get pods -o json --show-managed-fields",
        "get pods -l app=web -o jsonpath={.items[*].metadata.name}",
        "get pods -l app!=web -o name",
        "get nodes --ignore-not-found",
        "get pod web -o custom-columns=N:.metadata.name,I:.spec.containers[*].image,X:.none",
        "get pods --sort-by=.metadata.name -o name",
        "get namespaces --no-headers -o custom-columns=:metadata.name",
        "explain pods",
        "explain deployment.spec",
        "explain pod.spec.containers.imagePullPolicy",
        "explain deployment.spec.strategy --recursive",
        "explain cronjob.spec.concurrencyPolicy",
    ] {
        cluster.same(line);
    }
    // Ages go on between two calls, so words are compared.
    for line in [
        "get pods",
        "get pods -o wide",
        "get pods -A",
        "get pods web --show-labels",
        "get cm,svc",
        "get pods -L app",
        "get pods --show-kind",
        "get cm -A --show-kind",
    ] {
        let columns = |text: String| -> Vec<Vec<String>> {
            // Seconds, or minutes and seconds where the machine is slow.
            let age = |word: &str| {
                word.starts_with(|first: char| first.is_ascii_digit())
                    && word.ends_with(['s', 'm'])
                    && word
                        .chars()
                        .all(|sign| sign.is_ascii_digit() || "ms".contains(sign))
            };
            let line = |line: &str| {
                line.split_whitespace()
                    .filter(|word| !age(word))
                    .map(str::to_owned)
                    .collect()
            };
            text.lines().map(line).collect()
        };
        assert_eq!(
            columns(cluster.k3(line)),
            columns(cluster.kubectl(line)),
            "{line}"
        );
    }
    let object: Value = serde_json::from_str(&cluster.k3("get pod/web -o json")).unwrap();
    assert!(object["metadata"].get("managedFields").is_none());
    let template = "jsonpath={range .items[?(@.metadata.labels.app==\"web\")]}{.metadata.name}{\"\\n\"}{end}";
    assert_eq!(cluster.k3_with(&["get", "pods", "-o", template]), "web\n");
}

#[test]
fn completes_arguments() {
    let cluster = TestCluster::start();
    let offered = |columns: &[&str]| cluster.k3_with(&[&["__complete", "--"], columns].concat());
    assert_eq!(offered(&["rol"]), "rollout\n");
    assert!(offered(&["st"]).contains("start\n"));
    assert!(offered(&["get", "deploy"]).starts_with("deployments\n"));
    assert!(offered(&["get", "namespaces", "def"]).contains("default\n"));
    assert_eq!(offered(&["get", "ns/kube-sys"]), "ns/kube-system\n");
    assert_eq!(offered(&["get", "pods", "-n", "kube-pub"]), "kube-public\n");
    for shell in ["bash", "zsh", "fish"] {
        assert!(cluster.k3(&format!("completion {shell}")).contains("__complete"));
    }
}
