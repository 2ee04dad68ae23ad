//! A MySQL on demand.

use std::{fs, os::unix::fs::PermissionsExt};

use k3_node::runtime::engine::ServiceState;
use k3_test_services::{docker, podman};
use rustix::process::Signal;

use crate::{
    machine::{DatabaseTest, kubectl, start},
    program::TestDataDir,
};

#[test]
fn it_gets_a_password_of_its_own_and_its_data_outlive_it() {
    its_life(&DatabaseTest::new("docker", docker()));
}

#[test]
fn podman_does_the_same() {
    its_life(&DatabaseTest::new("podman", podman()));
}

fn its_life(machine: &DatabaseTest) {
    let (data, name) = (TestDataDir::new(), machine.name("mysql"));
    let server = start(&data, &machine.mysql("root"));
    let container = machine.container(&name).unwrap();
    assert_eq!(
        (container.state, container.ports),
        (ServiceState::Running, vec![machine.port])
    );
    let file = data.path().join("databases/mysql.password");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let password = fs::read_to_string(&file).unwrap();
    assert!(password.len() >= 32 && !data.log().contains(&password));
    kubectl(&server, "create configmap kept");
    assert_eq!(server.end_by(Signal::TERM).code(), Some(0), "{}", data.log());
    assert_eq!(machine.container(&name), None);

    let server = start(&data, &machine.mysql("root"));
    kubectl(&server, "get configmap kept");
}

#[test]
fn a_user_that_is_not_root_has_the_password_that_was_given() {
    let machine = DatabaseTest::new("docker", docker());
    let data = TestDataDir::new();
    let _server = start(&data, &machine.mysql("keeper:s3cret"));
    assert!(!data.path().join("databases").exists());
    assert!(!data.log().contains("s3cret"));
}
