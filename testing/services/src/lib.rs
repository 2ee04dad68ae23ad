//! Starts the real services that tests and benchmarks run against.
//!
//! Promises: a service is ready when its `start` returns; two services never share a port or a directory;
//! nothing is left behind, neither process nor directory, however the owner ends (drop, panic, `kill -9`,
//! a test runner's time-out).
//!
//! All calls block. They are short, but in an async test with one thread the other tasks wait meanwhile.

mod daemon;
mod error;
mod etcd;
mod mariadb;
mod mysql_database;
mod patience;
mod port;
mod program;
mod runtime;
mod shared;
mod supervisor;

pub use self::{
    daemon::Daemon,
    error::ServiceError,
    etcd::{Etcd, EtcdCluster, EtcdOptions},
    mariadb::{MariaDb, MariaDbOptions},
    mysql_database::{MysqlDatabase, MysqlServer},
    port::free_port,
    program::{Program, find_program},
    runtime::{
        Containerd, Docker, PAUSE_IMAGE, Podman, TEST_ETCD_IMAGE, TEST_IMAGE, TEST_IMAGE_WITH_NAMED_USER,
        TEST_IMAGE_WITH_USER, TEST_MYSQL_IMAGE, load_database_images,
    },
    shared::{containerd, docker, etcd, mysql, podman},
};
