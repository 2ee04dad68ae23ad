//! An etcd on demand.

use k3_node::runtime::docker::{
    NamedVolume, ServiceContainerPort, ServiceContainerSpec, ServiceContainerState,
};
use k3_test_services::{Etcd, TEST_ETCD_IMAGE, TEST_IMAGE, docker, podman};
use rustix::process::Signal;

use crate::{
    host::{DatabaseTest, kubectl, start, start_error},
    program::TestDataDir,
};

#[test]
fn starts_etcd_on_a_free_port_and_keeps_its_data() {
    check_lifecycle(&DatabaseTest::new("docker", docker()));
}

#[test]
fn works_with_podman() {
    check_lifecycle(&DatabaseTest::new("podman", podman()));
}

fn check_lifecycle(host: &DatabaseTest) {
    let data = TestDataDir::new();
    let name = host.name("etcd");
    let server = start(&data, &host.etcd(&[]));
    let container = host.container(&name).unwrap();
    assert_eq!(container.state, ServiceContainerState::Running);
    let mut ports = container.ports.clone();
    ports.sort_unstable();
    assert_eq!(ports, [host.port, host.port + 1]);
    kubectl(&server, "create configmap kept");

    // A second server on the same machine uses the same database and does not stop it.
    let second = TestDataDir::new();
    let status = start(&second, &host.etcd(&[])).end_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{}", second.log());
    assert_eq!(host.container(&name).unwrap().id, container.id);
    kubectl(&server, "get configmap kept");

    assert_eq!(server.end_by(Signal::TERM).code(), Some(0), "{}", data.log());
    assert_eq!(host.container(&name), None, "{}", data.log());

    // An exited container of a killed server does not prevent a start.
    let left = host.run(&ServiceContainerSpec {
        name: name.clone(),
        image: TEST_IMAGE.to_owned(),
        entrypoint: vec!["/bin/true".to_owned()],
        labels: [
            ("k3.io/database", "etcd"),
            ("k3.io/database-instance", &host.instance),
        ]
        .map(|(label, value)| (label.to_owned(), value.to_owned()))
        .into(),
        volume: volume(host, "left"),
        ..ServiceContainerSpec::default()
    });
    let server = start(&data, &host.etcd(&[]));
    assert_ne!(host.container(&name).unwrap().id, left);
    kubectl(&server, "get configmap kept");

    // After a kill the database keeps running, is used by the next server, and is never stopped.
    drop(server);
    let orphan = host.container(&name).unwrap();
    let status = start(&data, &host.etcd(&[])).end_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{}", data.log());
    assert_eq!(host.container(&name).unwrap().id, orphan.id);
}

#[test]
fn uses_and_keeps_databases_of_others() {
    let host = DatabaseTest::new("docker", docker());
    let data = TestDataDir::new();
    let name = host.name("etcd");
    let port = ServiceContainerPort {
        host_ip: [127, 0, 0, 1].into(),
        host_port: host.port,
        container_port: 2379,
    };
    let theirs = ServiceContainerSpec {
        name: name.clone(),
        image: TEST_ETCD_IMAGE.to_owned(),
        entrypoint: vec!["/usr/local/bin/etcd".to_owned()],
        args: [
            "--listen-client-urls=http://0.0.0.0:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
        ]
        .map(str::to_owned)
        .into(),
        ports: vec![port],
        volume: volume(&host, "theirs"),
        // A label for the cleanup of the test; k3 does not use it.
        labels: [("k3.io/database-instance".to_owned(), host.instance.clone())].into(),
        ..ServiceContainerSpec::default()
    };
    let id = host.run(&theirs);
    let status = start(&data, &host.etcd(&[])).end_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{}", data.log());
    assert_eq!(host.container(&name).unwrap().id, id);
    host.remove(&id);

    // A container that does not serve is reported and not changed.
    let idle = ServiceContainerSpec {
        entrypoint: vec!["/bin/true".to_owned()],
        image: TEST_IMAGE.to_owned(),
        args: Vec::new(),
        ports: Vec::new(),
        ..theirs
    };
    let id = host.run(&idle);
    let log = start_error(&data, &host.etcd(&[]));
    assert!(log.contains(&name) && log.contains("remove"), "{log}");
    assert_eq!(host.container(&name).unwrap().id, id);
    host.remove(&id);
}

#[test]
fn starts_nothing_when_disabled_or_impossible() {
    let host = DatabaseTest::new("docker", docker());
    let data = TestDataDir::new();
    let log = start_error(&data, &host.etcd(&["--database-autostart=false"]));
    assert!(log.contains("cannot open the store"), "{log}");
    assert_eq!(host.container(&host.name("etcd")), None);
    let log = start_error(&data, &host.etcd(&["--etcd-image", "k3.invalid/none:1"]));
    assert!(
        log.contains("k3.invalid/none:1") && log.contains("--etcd-image"),
        "{log}"
    );

    let absent = data.path().join("absent.sock");
    let hidden = ["--runtime-endpoint", absent.to_str().unwrap()];
    let log = start_error(&data, &host.etcd(&hidden));
    assert!(
        log.contains("nothing listens") && log.contains("start Docker or Podman"),
        "{log}"
    );
    let log = start_error(&data, &host.etcd(&["--runtime", "containerd"]));
    assert!(log.contains("named volumes"), "{log}");

    // A running database is used anyway.
    let etcd = Etcd::start().unwrap();
    let endpoint = etcd.endpoint();
    let _server = start(
        &data,
        &host.etcd(&[&hidden[..], &["--etcd-servers", &endpoint]].concat()),
    );
}

/// A volume of the test, which is removed with the others.
fn volume(host: &DatabaseTest, name: &str) -> NamedVolume {
    NamedVolume {
        name: format!("{name}-{}", host.instance),
        path: "/kept".to_owned(),
    }
}
