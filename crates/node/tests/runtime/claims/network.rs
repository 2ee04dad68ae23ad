//! What the containers of a pod share, and how a pod is reached.

use k3_node::runtime::{DnsSpec, NamespaceMode, PortMapping, Protocol, RuntimeError};
use k3_test_services::free_port;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::world::{Pod, World, eventually, soon};

/// Serves a page on a port of an address of the pod.
const SERVE: &str = "mkdir /tmp/www; echo served >/tmp/www/index.html; exec httpd -f -h /tmp/www -p";
const REQUEST: &[u8] = b"GET / HTTP/1.0\r\n\r\n";

pub(crate) async fn containers_of_a_pod_share_their_network(world: &World) {
    let pod = world.pod().await;
    let mut server = world.script(&format!("{SERVE} 127.0.0.1:8080"));
    server.name = "server".into();
    world.start(&pod, &server).await;
    let client = world.script("until wget -q -O - http://127.0.0.1:8080/ 2>/dev/null; do sleep 0.1; done");
    assert_eq!(world.output_of(&pod, &client).await, ("served\n".to_owned(), 0));
}

pub(crate) async fn processes_are_shared_only_when_asked_for(world: &World) {
    for (process, is_shared) in [(NamespaceMode::Container, false), (NamespaceMode::Pod, true)] {
        let mut spec = world.pod_spec();
        spec.process = process;
        let pod = world.run(spec).await;
        let mut sleeper = world.script("exec sleep 4711");
        sleeper.name = "sleeper".into();
        world.start(&pod, &sleeper).await;
        let id = world.start(&pod, &world.script("sleep 1000")).await;
        let count = async || {
            let found = world.exec(&id, "ps -o args | grep -v grep | grep -c 'sleep 4711' || true");
            found.await.trim().to_owned()
        };
        if is_shared {
            // For a moment after its start a process still is the runtime's own.
            eventually("it is seen", async || (count().await == "1").then_some(())).await;
        } else {
            assert_eq!(count().await, "0");
        }
    }
}

pub(crate) async fn a_port_of_the_loopback_is_reached(world: &World) {
    let pod = world.pod().await;
    world
        .start(&pod, &world.script(&format!("{SERVE} 127.0.0.1:8080")))
        .await;
    let answer = eventually("the port answers", async || {
        let mut stream = world.runtime.connect(&pod.sandbox, 8080).await.ok()?;
        stream.write_all(REQUEST).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        (!answer.is_empty()).then_some(answer)
    })
    .await;
    assert!(answer.ends_with("served\n"), "{answer}");
    // Nobody listens there: that shows at once, or when something is sent.
    let silent = async {
        let mut stream = world.runtime.connect(&pod.sandbox, 9).await.ok()?;
        stream.write_all(REQUEST).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        (!answer.is_empty()).then_some(answer)
    };
    assert_eq!(soon("an end", silent).await, None);
}

pub(crate) async fn a_port_of_the_machine_leads_into_the_pod(world: &World) {
    let mut spec = world.pod_spec();
    let port = free_port().unwrap();
    spec.ports = vec![PortMapping {
        protocol: Protocol::Tcp,
        container_port: 80,
        host_port: port,
        host_ip: None,
    }];
    let pod = world.run(spec.clone()).await;
    world.start(&pod, &world.script(&format!("{SERVE} 80"))).await;
    let answer = eventually("the port answers", async || fetch(("127.0.0.1", port)).await).await;
    assert!(answer.ends_with("served\n"), "{answer}");
    world.runtime.stop_sandbox(&pod.sandbox).await.unwrap();
    assert_eq!(fetch(("127.0.0.1", port)).await, None);
}

pub(crate) async fn pods_reach_each_other(world: &World) {
    let pod = world.pod().await;
    world.start(&pod, &world.script(&format!("{SERVE} 8080"))).await;
    let address = address(world, &pod).await;
    let other = world.pod().await;
    let client = world.script(&format!(
        "until wget -q -O - http://{address}:8080/ 2>/dev/null; do sleep 0.1; done"
    ));
    assert_eq!(world.output_of(&other, &client).await, ("served\n".to_owned(), 0));
    // So does the machine itself.
    assert!(fetch((address.as_str(), 8080)).await.is_some());
}

pub(crate) async fn names_are_resolved_as_told(world: &World) {
    let mut spec = world.pod_spec();
    spec.dns = Some(DnsSpec {
        servers: vec!["10.96.0.10".into()],
        searches: vec!["ns.svc.cluster.local".into(), "cluster.local".into()],
        options: vec!["ndots:5".into()],
    });
    let pod = world.run(spec).await;
    let (output, _) = world.output_of(&pod, &world.script("cat /etc/resolv.conf")).await;
    for line in [
        "nameserver 10.96.0.10",
        "search ns.svc.cluster.local cluster.local",
        "options ndots:5",
    ] {
        assert!(output.lines().any(|found| found == line), "{line}: {output}");
    }
}

pub(crate) async fn the_network_of_the_machine_can_be_had(world: &World) {
    let mut spec = world.pod_spec();
    spec.network = NamespaceMode::Node;
    spec.hostname = String::new();
    let pod = world.run(spec).await;
    assert!(world.runtime.sandboxes().await.unwrap()[0].addresses.is_empty());
    let mut container = world.script("readlink /proc/self/ns/net; hostname");
    container.name = "host".into();
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let expected = format!("{}\n{}\n", own.display(), name.trim());
    assert_eq!(world.output_of(&pod, &container).await, (expected, 0));
    let error = world.runtime.connect(&pod.sandbox, 1).await.err();
    assert!(!matches!(error, Some(RuntimeError::NotFound(_))), "{error:?}");
}

async fn address(world: &World, pod: &Pod) -> String {
    let sandboxes = world.runtime.sandboxes().await.unwrap();
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
