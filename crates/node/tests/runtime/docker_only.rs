//! Tests of Docker and Podman only: names and labels of containers.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use k3_node::runtime::{ContainerOwner, HostEntry, LogOptions, RuntimeError, SandboxId};
use k3_test_services::TEST_IMAGE;

use crate::{
    runtimes::{self, RuntimeUnderTest},
    test_node::TestNode,
};

macro_rules! engines {
    ($($test:ident,)*) => {
        mod docker { $( #[tokio::test] async fn $test() { super::$test(super::runtimes::docker()).await; } )* }
        mod podman { $( #[tokio::test] async fn $test() { super::$test(super::runtimes::podman()).await; } )* }
    };
}

engines!(
    containers_have_readable_names,
    foreign_container_keeps_its_name,
    name_in_use_by_another_cluster_gets_a_suffix,
    adopts_containers_without_cluster_label,
    writes_hosts_file,
    replaces_container_that_never_started,
    rejects_runtime_handlers_other_than_its_default,
);

async fn containers_have_readable_names(runtime_under_test: RuntimeUnderTest) {
    let node = TestNode::new(&runtime_under_test).await;
    let pod = node.pod().await;
    let namespace = &pod.spec.pod.namespace;
    let name = &pod.spec.pod.name;
    let live = format!("k8s_{namespace}_{name}_main");
    let first = node.start(&pod, &node.script("exit 1")).await;
    assert_eq!(id_of(&runtime_under_test, &live), first.0);
    assert_eq!(
        id_of(&runtime_under_test, &format!("k8s_{namespace}_{name}_POD")),
        pod.sandbox.0
    );
    node.exit(&first).await;
    let mut spec = node.script("sleep 1000");
    spec.attempt = 1;
    let second = node.start(&pod, &spec).await;
    assert_eq!(id_of(&runtime_under_test, &live), second.0);
    assert_eq!(
        id_of(&runtime_under_test, &format!("{live}_{}_0", pod.spec.pod.uid)),
        first.0
    );
    // The log of the replaced container still exists.
    assert_eq!(node.log(&first, &LogOptions::default()).await, "");
    // A running pod with the same name is renamed as well.
    let mut again = pod.spec.clone();
    again.pod.uid.push_str("-again");
    let next = node.run(again).await;
    assert_eq!(
        id_of(&runtime_under_test, &format!("k8s_{namespace}_{name}_POD")),
        next.sandbox.0
    );
    assert!(node.container(&second).await.unwrap().is_running());
    node.remove_all().await;
}

async fn rejects_runtime_handlers_other_than_its_default(runtime_under_test: RuntimeUnderTest) {
    let node = TestNode::new(&runtime_under_test).await;
    let mut spec = node.pod_spec();
    "sandboxed".clone_into(&mut spec.handler);
    let error = node.runtime.run_pod_sandbox(&spec).await.unwrap_err();
    assert!(matches!(error, RuntimeError::Unsupported(_)), "{error:?}");
    let message = error.to_string();
    assert!(
        message.starts_with("runtime handler \"sandboxed\" is not supported by "),
        "{message}"
    );
    node.remove_all().await;
}

async fn name_in_use_by_another_cluster_gets_a_suffix(runtime_under_test: RuntimeUnderTest) {
    let node = TestNode::new(&runtime_under_test).await;
    let pod = node.pod().await;
    let owner = ContainerOwner::new(&node.owner.node, "12345678-another");
    let other = node.connect_owner(owner).await;
    let mut spec = pod.spec.clone();
    spec.pod.uid.push_str("-other");
    let sandbox = other.run_pod_sandbox(&spec).await.unwrap();
    let usual = format!("k8s_{}_{}_POD", spec.pod.namespace, spec.pod.name);
    assert_eq!(id_of(&runtime_under_test, &usual), pod.sandbox.0);
    assert_eq!(
        id_of(&runtime_under_test, &format!("{usual}_12345678")),
        sandbox.0
    );
    other.remove_pod_sandbox(&sandbox).await.unwrap();
    node.remove_all().await;
}

async fn adopts_containers_without_cluster_label(runtime_under_test: RuntimeUnderTest) {
    let node = TestNode::new(&runtime_under_test).await;
    // Created like releases before the cluster label.
    let node_name = &node.owner.node;
    let name = format!("k8s_{node_name}_old_POD");
    let body = format!(
        r#"{{"Image":"{TEST_IMAGE}","Cmd":["sleep","1000"],"Labels":{{"io.kubernetes.docker.type":"podsandbox",
            "io.kubernetes.pod.name":"old","io.kubernetes.pod.namespace":"{node_name}","io.kubernetes.pod.uid":"{node_name}-old",
            "io.kubernetes.container.name":"POD","k3.io/node":"{node_name}","k3.io/attempt":"0"}}}}"#
    );
    let response = request(
        &runtime_under_test,
        "POST",
        &format!("/containers/create?name={name}"),
        &body,
    );
    assert!(response.contains("\"Id\""), "{response}");
    let id = SandboxId(id_of(&runtime_under_test, &name));
    assert_eq!(
        node.runtime.list_pod_sandboxes().await.unwrap(),
        [],
        "it may be of another cluster"
    );
    assert!(node.runtime.remove_pod_sandbox(&id).await.is_err());
    assert_eq!(node.runtime.other_clusters().await.unwrap()[""], 1);
    node.owner.adopted.add(&format!("{node_name}-old"));
    let found = node.runtime.list_pod_sandboxes().await.unwrap();
    assert_eq!(found.iter().map(|sandbox| &sandbox.id).collect::<Vec<_>>(), [&id]);
    assert!(!node.runtime.other_clusters().await.unwrap().contains_key(""));
    // `remove_all` removes it as an owned sandbox.
    node.remove_all().await;
}

async fn foreign_container_keeps_its_name(runtime_under_test: RuntimeUnderTest) {
    let node = TestNode::new(&runtime_under_test).await;
    let pod = node.pod().await;
    let name = format!("k8s_{}_{}_main", pod.spec.pod.namespace, pod.spec.pod.name);
    let body = format!(r#"{{"Image":"{TEST_IMAGE}","Cmd":["sleep","1000"]}}"#);
    let response = request(
        &runtime_under_test,
        "POST",
        &format!("/containers/create?name={name}"),
        &body,
    );
    assert!(response.contains("\"Id\""), "{response}");
    let holder = id_of(&runtime_under_test, &name);
    let error = node
        .runtime
        .create_container(&pod.sandbox, &pod.spec, &node.script("true"))
        .await
        .unwrap_err();
    let RuntimeError::NameTaken {
        name: taken,
        holder: holder_in_error,
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!((taken, holder_in_error), (&name, &holder));
    assert!(error.to_string().contains(&name));
    let id = k3_node::runtime::ContainerId(holder.clone());
    assert!(node.runtime.remove_container(&id).await.is_err());
    assert!(node.runtime.stop_container(&id, Duration::ZERO).await.is_err());
    assert_eq!(id_of(&runtime_under_test, &name), holder);
    request(
        &runtime_under_test,
        "DELETE",
        &format!("/containers/{holder}?force=1"),
        "",
    );
    node.remove_all().await;
}

async fn writes_hosts_file(runtime_under_test: RuntimeUnderTest) {
    let node = TestNode::new(&runtime_under_test).await;
    let mut spec = node.pod_spec();
    spec.hosts = vec![HostEntry {
        ip: "10.1.2.3".into(),
        names: vec!["one.test".into(), "two.test".into()],
    }];
    let pod = node.run(spec).await;
    let (output, _) = node.output_of(&pod, &node.script("cat /etc/hosts")).await;
    for name in ["one.test", "two.test", &pod.spec.hostname] {
        assert!(
            output
                .lines()
                .any(|line| line.split_whitespace().any(|word| word == name)),
            "{name}: {output}"
        );
    }
    node.remove_all().await;
}

async fn replaces_container_that_never_started(runtime_under_test: RuntimeUnderTest) {
    let node = TestNode::new(&runtime_under_test).await;
    let pod = node.pod().await;
    let spec = node.script("true");
    let lost = node
        .runtime
        .create_container(&pod.sandbox, &pod.spec, &spec)
        .await
        .unwrap();
    // As if the agent was killed here, and repeats the same attempt.
    let id = node.start(&pod, &spec).await;
    assert_ne!(id, lost);
    assert_eq!(node.container(&lost).await, None);
    assert_eq!(node.exit(&id).await.code, 0);
    node.remove_all().await;
}

fn id_of(runtime_under_test: &RuntimeUnderTest, name: &str) -> String {
    let answer = request(runtime_under_test, "GET", &format!("/containers/{name}/json"), "");
    let (_, rest) = answer
        .split_once("\"Id\":\"")
        .unwrap_or_else(|| panic!("{name}: {answer}"));
    rest.chars().take_while(|sign| *sign != '"').collect()
}

fn request(runtime_under_test: &RuntimeUnderTest, method: &str, path: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(runtime_under_test.socket).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: engine\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
