//! The backends, each with nothing in it.

use std::sync::Arc;

use k3_storage::{
    Store, backend::StorageConfig, etcd::EtcdOptions, file::FileOptions, memory::MemoryOptions,
    mysql::MysqlOptions,
};
use k3_test_services::MysqlDatabase;
use tempfile::TempDir;

/// A store, and what it needs to be there.
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    pub(crate) store: Arc<dyn Store>,
    _directory: TempDir,
    _database: Option<MysqlDatabase>,
}

/// All four, for the test of this name.
pub(crate) async fn all(test: &str) -> Vec<Backend> {
    let mut backends = Vec::new();
    for name in ["memory", "file", "etcd", "mysql"] {
        let directory = tempfile::tempdir().unwrap();
        let mut database = None;
        let unique = format!("encryption_{test}_{}", std::process::id());
        let config: Box<dyn StorageConfig> = match name {
            "memory" => Box::new(MemoryOptions),
            "file" => Box::new(FileOptions::new(directory.path().join("objects"))),
            "etcd" => {
                let endpoint = tokio::task::spawn_blocking(k3_test_services::etcd).await.unwrap();
                let mut options = EtcdOptions::at(&[endpoint.to_owned()]);
                options.prefix = format!("/{unique}/");
                Box::new(options)
            }
            _ => {
                let created = tokio::task::spawn_blocking(|| MysqlDatabase::new("k3_encryption")).await;
                let created = database.insert(created.unwrap());
                Box::new(mysql_options(created))
            }
        };
        backends.push(Backend {
            name,
            store: config.open().await.unwrap(),
            _directory: directory,
            _database: database,
        });
    }
    backends
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
