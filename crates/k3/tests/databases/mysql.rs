//! A MySQL on demand.

use std::{fs, os::unix::fs::PermissionsExt};

use k3_node::runtime::docker::ServiceContainerState;
use k3_test_services::{docker, podman};
use rustix::process::Signal;

use crate::{
    host::{DatabaseTest, kubectl, start},
    program::TestDataDir,
};

#[test]
fn generates_a_password_and_keeps_the_data() {
    check_lifecycle(&DatabaseTest::new("docker", docker()));
}

#[test]
fn works_with_podman() {
    check_lifecycle(&DatabaseTest::new("podman", podman()));
}

fn check_lifecycle(host: &DatabaseTest) {
    let data = TestDataDir::new();
    let name = host.name("mysql");
    let server = start(&data, &host.mysql("root"));
    let container = host.container(&name).unwrap();
    assert_eq!(
        (container.state, container.ports),
        (ServiceContainerState::Running, vec![host.port])
    );
    let file = data.path().join("databases/mysql.password");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let password = fs::read_to_string(&file).unwrap();
    assert!(password.len() >= 32 && !data.log().contains(&password));
    kubectl(&server, "create configmap kept");
    assert_eq!(server.end_by(Signal::TERM).code(), Some(0), "{}", data.log());
    assert_eq!(host.container(&name), None);

    let server = start(&data, &host.mysql("root"));
    kubectl(&server, "get configmap kept");
}

#[test]
fn uses_the_configured_password_of_another_user() {
    let host = DatabaseTest::new("docker", docker());
    let data = TestDataDir::new();
    let _server = start(&data, &host.mysql("alice:s3cret"));
    assert!(!data.path().join("databases").exists());
    assert!(!data.log().contains("s3cret"));
}
