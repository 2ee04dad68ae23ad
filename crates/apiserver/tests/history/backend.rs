//! The backends, and the macro that runs a test on each of them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use k3_storage::{
    Store,
    etcd::{EtcdOptions, EtcdStore},
    file::{FileOptions, FileStore},
    memory::MemoryStore,
    mysql::{MysqlOptions, MysqlStore},
};
use k3_test_services::MysqlDatabase;

/// How long a test may take before it counts as hung.
const LIMIT: Duration = Duration::from_mins(2);

/// A place for one cluster.
pub(crate) enum Backend {
    Memory(Arc<dyn Store>),
    File(
        Arc<dyn Store>,
        #[expect(dead_code, reason = "removed when dropped")] tempfile::TempDir,
    ),
    Etcd(k3_test_services::Etcd),
    Mysql(MysqlDatabase),
}

/// Makes a test of each function on each backend.
macro_rules! on_every_backend {
    ($($test:ident),* $(,)?) => {
        on_backend!(memory, [$($test),*]);
        on_backend!(file, [$($test),*]);
        on_backend!(etcd, [$($test),*]);
        on_backend!(mysql, [$($test),*]);
    };
}

/// Makes a test of each function on one backend.
macro_rules! on_backend {
    ($backend:ident, [$($test:ident),*]) => {
        mod $backend {
            $(
                #[test]
                fn $test() {
                    crate::backend::run(async {
                        let backend = crate::backend::Backend::$backend().await;
                        super::$test(&backend).await;
                    });
                }
            )*
        }
    };
}

/// Runs a test to its end.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, test).await.expect("the test hangs") });
    runtime.shutdown_background();
}

// --- Backend ---

impl Backend {
    #[expect(clippy::unused_async, reason = "all backends are opened in the same way")]
    pub(crate) async fn memory() -> Self {
        Backend::Memory(MemoryStore::new())
    }

    pub(crate) async fn file() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = FileStore::open(FileOptions::new(directory.path())).await.unwrap();
        Backend::File(store, directory)
    }

    /// One of its own: compaction is the business of a whole etcd.
    pub(crate) async fn etcd() -> Self {
        let etcd = tokio::task::spawn_blocking(k3_test_services::Etcd::start).await;
        Backend::Etcd(etcd.unwrap().unwrap())
    }

    pub(crate) async fn mysql() -> Self {
        let database = tokio::task::spawn_blocking(|| MysqlDatabase::new("k3_history")).await;
        Backend::Mysql(database.unwrap())
    }

    /// Where the database listens.
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Backend::Memory(_) | Backend::File(..) => unreachable!("it listens nowhere"),
            Backend::Etcd(etcd) => etcd.endpoint().strip_prefix("http://").unwrap().parse().unwrap(),
            Backend::Mysql(database) => {
                let server = &database.server;
                format!("{}:{}", server.host, server.port).parse().unwrap()
            }
        }
    }

    /// A handle on the store that reaches the database at another address.
    pub(crate) async fn open_through(&self, address: SocketAddr) -> Arc<dyn Store> {
        match self {
            Backend::Memory(_) | Backend::File(..) => unreachable!("it listens nowhere"),
            Backend::Etcd(_) => {
                let options = EtcdOptions::at([format!("http://{address}")]);
                EtcdStore::open(options).await.unwrap()
            }
            Backend::Mysql(database) => {
                let options = MysqlOptions {
                    host: address.ip().to_string(),
                    port: address.port(),
                    ..mysql_options(database)
                };
                MysqlStore::open(options).await.unwrap()
            }
        }
    }

    /// A handle on the store: one of its own where the backend can be shared.
    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        match self {
            Backend::Memory(store) | Backend::File(store, _) => Arc::clone(store),
            Backend::Etcd(etcd) => EtcdStore::open(EtcdOptions::at([etcd.endpoint()])).await.unwrap(),
            Backend::Mysql(database) => MysqlStore::open(mysql_options(database)).await.unwrap(),
        }
    }
}

fn mysql_options(database: &MysqlDatabase) -> MysqlOptions {
    let server = database.server.clone();
    MysqlOptions {
        host: server.host,
        port: server.port,
        user: server.user,
        password: server.password,
        database: database.name.clone(),
        ..MysqlOptions::default()
    }
}
