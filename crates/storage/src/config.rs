//! The configuration of a store.

use std::sync::Arc;

use crate::{
    OpenError, Store,
    etcd::{EtcdOptions, EtcdStore},
    file::{FileOptions, FileStore},
    memory::MemoryStore,
    mysql::{MysqlOptions, MysqlStore},
};

/// A storage backend and its options.
#[derive(Clone, Debug)]
pub enum StorageConfig {
    /// In memory: lost when the process exits.
    Memory,
    /// In a directory on this machine.
    File(FileOptions),
    /// In an etcd cluster.
    Etcd(EtcdOptions),
    /// In a MySQL or MariaDB server.
    Mysql(MysqlOptions),
}

/// Opens the configured store. Must be called in a Tokio runtime, which runs the background tasks of the store.
pub async fn open(config: StorageConfig) -> Result<Arc<dyn Store>, OpenError> {
    Ok(match config {
        StorageConfig::Memory => MemoryStore::new(),
        StorageConfig::File(options) => FileStore::open(options).await?,
        StorageConfig::Etcd(options) => EtcdStore::open(options).await?,
        StorageConfig::Mysql(options) => MysqlStore::open(options).await?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The invalid setting, which is rejected before a server is contacted.
    async fn refused(config: StorageConfig) -> &'static str {
        match open(config).await {
            Err(OpenError::InvalidSetting { setting, .. }) => setting,
            Err(error) => panic!("refused for another reason: {error}"),
            Ok(_) => panic!("opened"),
        }
    }

    #[tokio::test]
    async fn each_configuration_opens_its_own_backend() {
        let memory = open(StorageConfig::Memory).await.unwrap();
        assert_eq!(memory.health().await.unwrap().backend, "memory");

        let directory = tempfile::tempdir().unwrap();
        let file = StorageConfig::File(FileOptions::new(directory.path()));
        let file = open(file).await.unwrap();
        assert_eq!(file.health().await.unwrap().backend, "file");

        let etcd = EtcdOptions {
            prefix: "no slash".to_owned(),
            ..EtcdOptions::default()
        };
        assert_eq!(refused(StorageConfig::Etcd(etcd)).await, "prefix");
        let mysql = MysqlOptions {
            database: "no such name".to_owned(),
            ..MysqlOptions::default()
        };
        assert_eq!(refused(StorageConfig::Mysql(mysql)).await, "database");
    }
}
