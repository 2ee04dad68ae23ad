//! The backends, each with nothing in it.

use std::sync::Arc;

use k3_storage::{StorageConfig, Store, etcd::EtcdOptions, file::FileOptions, mysql::MysqlOptions};
use tempfile::TempDir;

/// A store, and what it needs to be there.
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    pub(crate) store: Arc<dyn Store>,
    _directory: TempDir,
}

/// All four, for the test of this name.
pub(crate) async fn all(test: &str) -> Vec<Backend> {
    let mut backends = Vec::new();
    for name in ["memory", "file", "etcd", "mysql"] {
        let directory = tempfile::tempdir().unwrap();
        let unique = format!("encryption_{test}_{}", std::process::id());
        let config = match name {
            "memory" => StorageConfig::Memory,
            "file" => StorageConfig::File(FileOptions::new(directory.path().join("objects"))),
            "etcd" => {
                let endpoint = tokio::task::spawn_blocking(k3_test_services::etcd).await.unwrap();
                let mut options = EtcdOptions::at(&[endpoint.to_owned()]);
                options.prefix = format!("/{unique}/");
                StorageConfig::Etcd(options)
            }
            _ => StorageConfig::Mysql(mysql(&unique).await),
        };
        backends.push(Backend {
            name,
            store: k3_storage::open(config).await.unwrap(),
            _directory: directory,
        });
    }
    backends
}

async fn mysql(database: &str) -> MysqlOptions {
    let url = tokio::task::spawn_blocking(k3_test_services::mysql)
        .await
        .unwrap();
    let (account, address) = url.strip_prefix("mysql://").unwrap().split_once('@').unwrap();
    let (user, password) = account.split_once(':').unwrap();
    let (host, port) = address.trim_end_matches('/').split_once(':').unwrap();
    MysqlOptions {
        host: host.to_owned(),
        port: port.parse().unwrap(),
        user: user.to_owned(),
        password: password.to_owned(),
        database: database.to_owned(),
        ..MysqlOptions::default()
    }
}
