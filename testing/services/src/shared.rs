//! The services that many tests share: those that the environment offers, else one per process.

use std::{
    env,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::{
    Containerd, Docker, Etcd, MariaDb, Podman, Program, ServiceError,
    runtime::{load_through_containerd, load_through_engine},
};

/// The endpoint of an etcd to test against: `K3_TEST_ETCD` (as `http://127.0.0.1:2379`) if set, else one
/// that is started for this process and ends with it.
///
/// Tests share it concurrently: each test uses its own key prefix and neither kills nor pauses the service.
///
/// # Panics
/// If it cannot be started; the calling test fails with the reason.
pub fn etcd() -> &'static str {
    static SHARED: OnceLock<(String, Option<Etcd>)> = OnceLock::new();
    let (endpoint, _) = SHARED.get_or_init(|| {
        offered(crate::etcd::PROGRAM.variable).map_or_else(
            || {
                let own = started(Etcd::start());
                (own.endpoint(), Some(own))
            },
            |endpoint| (endpoint, None),
        )
    });
    endpoint
}

/// The URL of a MySQL or MariaDB server to test against: `K3_TEST_MYSQL` (as
/// `mysql://user:password@host:port`) if set, else one that is started for this process and ends with it.
/// The user may do everything.
///
/// Tests share it concurrently: each test creates its own database and neither kills nor pauses the service.
///
/// # Panics
/// If it cannot be started; the calling test fails with the reason.
pub fn mysql() -> &'static str {
    static SHARED: OnceLock<(String, Option<MariaDb>)> = OnceLock::new();
    let (url, _) = SHARED.get_or_init(|| {
        offered(crate::mariadb::PROGRAM.variable).map_or_else(
            || {
                let own = started(MariaDb::start());
                (own.url(), Some(own))
            },
            |url| (url, None),
        )
    });
    url
}

/// The socket of a Docker with the images of tests: `K3_TEST_DOCKER` (a path) if set, else one that is started for this process
/// and ends with it.
///
/// Tests share it concurrently: each test uses unique names and neither kills nor pauses the service.
///
/// # Panics
/// If it cannot be started; the calling test fails with the reason.
pub fn docker() -> &'static Path {
    static SHARED: OnceLock<(PathBuf, Option<Docker>)> = OnceLock::new();
    runtime(
        &SHARED,
        &crate::runtime::DOCKER,
        Docker::start,
        Docker::socket,
        load_through_engine,
    )
}

/// As [`docker`], for Podman and `K3_TEST_PODMAN`.
///
/// # Panics
/// See [`docker`].
pub fn podman() -> &'static Path {
    static SHARED: OnceLock<(PathBuf, Option<Podman>)> = OnceLock::new();
    runtime(
        &SHARED,
        &crate::runtime::PODMAN,
        Podman::start,
        Podman::socket,
        load_through_engine,
    )
}

/// As [`docker`], for containerd and `K3_TEST_CONTAINERD`. It has a network.
///
/// # Panics
/// See [`docker`].
pub fn containerd() -> &'static Path {
    static SHARED: OnceLock<(PathBuf, Option<Containerd>)> = OnceLock::new();
    runtime(
        &SHARED,
        &crate::runtime::CONTAINERD,
        Containerd::start,
        Containerd::socket,
        load_through_containerd,
    )
}

fn runtime<S>(
    shared: &'static OnceLock<(PathBuf, Option<S>)>,
    program: &Program,
    start: fn() -> Result<S, ServiceError>,
    socket: fn(&S) -> &Path,
    load: fn(&Path) -> Result<(), ServiceError>,
) -> &'static Path {
    let (path, _) = shared.get_or_init(|| {
        let (path, own) = if let Some(path) = offered(program.variable) {
            (PathBuf::from(path), None)
        } else {
            let own = started(start());
            (socket(&own).to_path_buf(), Some(own))
        };
        started(load(&path));
        (path, own)
    });
    path
}

fn offered(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

fn started<T>(outcome: Result<T, ServiceError>) -> T {
    outcome.unwrap_or_else(|error| panic!("cannot start a service for this test: {error}"))
}
