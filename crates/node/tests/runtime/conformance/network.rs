//! Pod networks, shared namespaces, host ports and DNS.

use k3_node::runtime::{DnsSpec, NamespaceMode, PortMapping, Protocol, RuntimeError};
use k3_test_services::free_port;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::test_node::{Pod, TestNode, eventually, soon};

/// Serves a page on a port of the pod.
const SERVE: &str = "mkdir /tmp/www; echo served >/tmp/www/index.html; exec httpd -f -h /tmp/www -p";
const REQUEST: &[u8] = b"GET / HTTP/1.0\r\n\r\n";

pub(crate) async fn containers_of_a_pod_share_the_network(node: &TestNode) {
    let pod = node.pod().await;
    let mut server = node.script(&format!("{SERVE} 127.0.0.1:8080"));
    server.name = "server".into();
    node.start(&pod, &server).await;
    let client = node.script("until wget -q -O - http://127.0.0.1:8080/ 2>/dev/null; do sleep 0.1; done");
    assert_eq!(node.output_of(&pod, &client).await, ("served\n".to_owned(), 0));
}

pub(crate) async fn shares_processes_only_on_request(node: &TestNode) {
    for (process, is_shared) in [(NamespaceMode::Container, false), (NamespaceMode::Pod, true)] {
        let mut spec = node.pod_spec();
        spec.process = process;
        let pod = node.run(spec).await;
        let mut sleeper = node.script("exec sleep 4711");
        sleeper.name = "sleeper".into();
        node.start(&pod, &sleeper).await;
        let id = node.start(&pod, &node.script("sleep 1000")).await;
        let count = async || {
            let found = node.exec(&id, "ps -o args | grep -v grep | grep -c 'sleep 4711' || true");
            found.await.trim().to_owned()
        };
        if is_shared {
            // Right after its start the process still is the runtime's init.
            eventually("the process is visible", async || {
                (count().await == "1").then_some(())
            })
            .await;
        } else {
            assert_eq!(count().await, "0");
        }
    }
}

pub(crate) async fn port_forward_reaches_loopback(node: &TestNode) {
    let pod = node.pod().await;
    node.start(&pod, &node.script(&format!("{SERVE} 127.0.0.1:8080")))
        .await;
    let answer = eventually("the port answers", async || {
        let mut stream = node.runtime.port_forward(&pod.sandbox, 8080).await.ok()?;
        stream.write_all(REQUEST).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        (!answer.is_empty()).then_some(answer)
    })
    .await;
    assert!(answer.ends_with("served\n"), "{answer}");
    // A closed port is reported at connect, or on the first write.
    let silent = async {
        let mut stream = node.runtime.port_forward(&pod.sandbox, 9).await.ok()?;
        stream.write_all(REQUEST).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        (!answer.is_empty()).then_some(answer)
    };
    assert_eq!(soon("an end", silent).await, None);
}

pub(crate) async fn forwards_host_ports(node: &TestNode) {
    let mut spec = node.pod_spec();
    let port = free_port().unwrap();
    spec.ports = vec![PortMapping {
        protocol: Protocol::Tcp,
        container_port: 80,
        host_port: port,
        host_ip: None,
    }];
    let pod = node.run(spec.clone()).await;
    node.start(&pod, &node.script(&format!("{SERVE} 80"))).await;
    let answer = eventually("the port answers", async || fetch(("127.0.0.1", port)).await).await;
    assert!(answer.ends_with("served\n"), "{answer}");
    node.runtime.stop_pod_sandbox(&pod.sandbox).await.unwrap();
    assert_eq!(fetch(("127.0.0.1", port)).await, None);
}

pub(crate) async fn pods_reach_each_other(node: &TestNode) {
    let pod = node.pod().await;
    node.start(&pod, &node.script(&format!("{SERVE} 8080"))).await;
    let address = address(node, &pod).await;
    let other = node.pod().await;
    let client = node.script(&format!(
        "until wget -q -O - http://{address}:8080/ 2>/dev/null; do sleep 0.1; done"
    ));
    assert_eq!(node.output_of(&other, &client).await, ("served\n".to_owned(), 0));
    // The host reaches pods as well.
    assert!(fetch((address.as_str(), 8080)).await.is_some());
}

pub(crate) async fn configures_dns(node: &TestNode) {
    let mut spec = node.pod_spec();
    spec.dns = Some(DnsSpec {
        servers: vec!["10.96.0.10".into()],
        searches: vec!["ns.svc.cluster.local".into(), "cluster.local".into()],
        options: vec!["ndots:5".into()],
    });
    let pod = node.run(spec).await;
    let (output, _) = node.output_of(&pod, &node.script("cat /etc/resolv.conf")).await;
    for line in [
        "nameserver 10.96.0.10",
        "search ns.svc.cluster.local cluster.local",
        "options ndots:5",
    ] {
        assert!(output.lines().any(|found| found == line), "{line}: {output}");
    }
}

pub(crate) async fn uses_host_network(node: &TestNode) {
    let mut spec = node.pod_spec();
    spec.network = NamespaceMode::Node;
    spec.hostname = String::new();
    let pod = node.run(spec).await;
    assert!(
        node.runtime.list_pod_sandboxes().await.unwrap()[0]
            .addresses
            .is_empty()
    );
    let mut container = node.script("readlink /proc/self/ns/net; hostname");
    container.name = "host".into();
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let expected = format!("{}\n{}\n", own.display(), name.trim());
    assert_eq!(node.output_of(&pod, &container).await, (expected, 0));
    let error = node.runtime.port_forward(&pod.sandbox, 1).await.err();
    assert!(!matches!(error, Some(RuntimeError::NotFound(_))), "{error:?}");
}

async fn address(node: &TestNode, pod: &Pod) -> String {
    let sandboxes = node.runtime.list_pod_sandboxes().await.unwrap();
    let sandbox = sandboxes
        .iter()
        .find(|sandbox| sandbox.id == pod.sandbox)
        .unwrap();
    sandbox.addresses[0].to_string()
}

async fn fetch(address: (&str, u16)) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(REQUEST).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    (!answer.is_empty()).then_some(answer)
}
