//! An etcd on demand.

use k3_node::runtime::engine::{Service, ServicePort, ServiceState, ServiceVolume};
use k3_test_services::{Etcd, TEST_ETCD_IMAGE, TEST_IMAGE, docker, podman};
use rustix::process::Signal;

use crate::{
    machine::{DatabaseTest, kubectl, refused, start},
    program::TestDataDir,
};

#[test]
fn it_is_started_where_nobody_listens_and_its_data_outlive_it() {
    its_life(&DatabaseTest::new("docker", docker()));
}

#[test]
fn podman_does_the_same() {
    its_life(&DatabaseTest::new("podman", podman()));
}

fn its_life(machine: &DatabaseTest) {
    let (data, name) = (TestDataDir::new(), machine.name("etcd"));
    let server = start(&data, &machine.etcd(&[]));
    let container = machine.container(&name).unwrap();
    assert_eq!(container.state, ServiceState::Running);
    let mut ports = container.ports.clone();
    ports.sort_unstable();
    assert_eq!(ports, [machine.port, machine.port + 1]);
    kubectl(&server, "create configmap kept");

    // A second server on the same machine uses the same, and leaves it to the first.
    let second = TestDataDir::new();
    let status = start(&second, &machine.etcd(&[])).end_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{}", second.log());
    assert_eq!(machine.container(&name).unwrap().id, container.id);
    kubectl(&server, "get configmap kept");

    assert_eq!(server.end_by(Signal::TERM).code(), Some(0), "{}", data.log());
    assert_eq!(machine.container(&name), None, "{}", data.log());

    // One that a killed server left behind, and that has ended since, is in nobody's way.
    let left = machine.run(&Service {
        name: name.clone(),
        image: TEST_IMAGE.to_owned(),
        entrypoint: vec!["/bin/true".to_owned()],
        labels: [
            ("k3.io/database", "etcd"),
            ("k3.io/database-instance", &machine.instance),
        ]
        .map(|(label, value)| (label.to_owned(), value.to_owned()))
        .into(),
        volume: volume(machine, "left"),
        ..Service::default()
    });
    let server = start(&data, &machine.etcd(&[]));
    assert_ne!(machine.container(&name).unwrap().id, left);
    kubectl(&server, "get configmap kept");

    // Killed: the database goes on, is used by the next one, and is no longer anybody's to stop.
    drop(server);
    let orphan = machine.container(&name).unwrap();
    let status = start(&data, &machine.etcd(&[])).end_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{}", data.log());
    assert_eq!(machine.container(&name).unwrap().id, orphan.id);
}

#[test]
fn what_somebody_else_started_is_used_and_never_touched() {
    let machine = DatabaseTest::new("docker", docker());
    let (data, name) = (TestDataDir::new(), machine.name("etcd"));
    let port = ServicePort {
        address: [127, 0, 0, 1].into(),
        machine: machine.port,
        container: 2379,
    };
    let theirs = Service {
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
        volume: volume(&machine, "theirs"),
        // Only so that nothing of the test is left: this is not what k3 knows its own by.
        labels: [("k3.io/database-instance".to_owned(), machine.instance.clone())].into(),
        ..Service::default()
    };
    let id = machine.run(&theirs);
    let status = start(&data, &machine.etcd(&[])).end_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{}", data.log());
    assert_eq!(machine.container(&name).unwrap().id, id);
    machine.remove(&id);

    // One that does not serve is told, and left alone.
    let idle = Service {
        entrypoint: vec!["/bin/true".to_owned()],
        image: TEST_IMAGE.to_owned(),
        args: Vec::new(),
        ports: Vec::new(),
        ..theirs
    };
    let id = machine.run(&idle);
    let said = refused(&data, &machine.etcd(&[]));
    assert!(said.contains(&name) && said.contains("remove"), "{said}");
    assert_eq!(machine.container(&name).unwrap().id, id);
    machine.remove(&id);
}

#[test]
fn nothing_is_started_where_that_is_off_or_cannot_be() {
    let machine = DatabaseTest::new("docker", docker());
    let data = TestDataDir::new();
    let said = refused(&data, &machine.etcd(&["--database-autostart=false"]));
    assert!(said.contains("cannot open the store"), "{said}");
    assert_eq!(machine.container(&machine.name("etcd")), None);
    let said = refused(&data, &machine.etcd(&["--etcd-image", "k3.invalid/none:1"]));
    assert!(
        said.contains("k3.invalid/none:1") && said.contains("--etcd-image"),
        "{said}"
    );

    let absent = data.path().join("absent.sock");
    let hidden = ["--runtime-endpoint", absent.to_str().unwrap()];
    let said = refused(&data, &machine.etcd(&hidden));
    assert!(
        said.contains("nothing listens") && said.contains("start Docker or Podman"),
        "{said}"
    );
    let said = refused(&data, &machine.etcd(&["--runtime", "containerd"]));
    assert!(said.contains("volumes with names"), "{said}");

    // What listens is used all the same.
    let etcd = Etcd::start().unwrap();
    let endpoint = etcd.endpoint();
    let _server = start(
        &data,
        &machine.etcd(&[&hidden[..], &["--etcd-servers", &endpoint]].concat()),
    );
}

/// A volume of the test's own, which goes with the machine's others.
fn volume(machine: &DatabaseTest, name: &str) -> ServiceVolume {
    ServiceVolume {
        name: format!("{name}-{}", machine.instance),
        path: "/kept".to_owned(),
    }
}
