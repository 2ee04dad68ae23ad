//! A database of its own on a server that tests share.

use std::sync::Arc;

use async_trait::async_trait;
use k3_storage::{
    Store,
    mysql::{MysqlOptions, MysqlStore},
};
use k3_test_services::{MysqlDatabase, MysqlServer};

use super::TestBackend;

pub(crate) struct Mysql(MysqlDatabase);

/// Options for a server.
pub(crate) fn server_options(server: &MysqlServer) -> MysqlOptions {
    MysqlOptions {
        host: server.host.clone(),
        port: server.port,
        user: server.user.clone(),
        password: server.password.clone(),
        ..MysqlOptions::default()
    }
}

/// A database that does not exist yet: the store creates it.
pub(crate) async fn fresh_database() -> MysqlDatabase {
    let created = tokio::task::spawn_blocking(|| MysqlDatabase::new("k3_suite"));
    created.await.unwrap()
}

// --- Mysql ---

#[async_trait]
impl TestBackend for Mysql {
    async fn fresh() -> Self {
        Self(fresh_database().await)
    }

    async fn another(&self) -> Box<dyn TestBackend> {
        Box::new(Self::fresh().await)
    }

    async fn open(&self) -> Arc<dyn Store> {
        let options = MysqlOptions {
            database: self.0.name.clone(),
            ..server_options(&self.0.server)
        };
        MysqlStore::open(options).await.unwrap()
    }
}
