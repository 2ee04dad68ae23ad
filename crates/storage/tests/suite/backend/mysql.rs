//! A database of its own on a server that tests share.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
};

use async_trait::async_trait;
use k3_storage::{
    Store,
    mysql::{MysqlOptions, MysqlStore},
};
use sqlx::{AssertSqlSafe, Connection, Executor, mysql::MySqlConnection};

use super::TestBackend;

pub(crate) struct Mysql(TestDatabase);

/// A database that is dropped with this. The server may be one that stays: nothing of ours is left there.
pub(crate) struct TestDatabase {
    /// As `mysql://user:password@host:port`.
    pub(crate) server: &'static str,
    pub(crate) options: MysqlOptions,
}

/// Options for the server at `mysql://user:password@host:port`.
pub(crate) fn server_options(url: &str) -> MysqlOptions {
    let (account, address) = url.strip_prefix("mysql://").unwrap().split_once('@').unwrap();
    let (user, password) = account.split_once(':').unwrap();
    let (host, port) = address.trim_end_matches('/').split_once(':').unwrap();
    MysqlOptions {
        host: host.to_owned(),
        port: port.parse().unwrap(),
        user: user.to_owned(),
        password: password.to_owned(),
        ..MysqlOptions::default()
    }
}

// --- Mysql ---

#[async_trait]
impl TestBackend for Mysql {
    async fn fresh() -> Self {
        Self(TestDatabase::fresh().await)
    }

    async fn another(&self) -> Box<dyn TestBackend> {
        Box::new(Self::fresh().await)
    }

    async fn open(&self) -> Arc<dyn Store> {
        MysqlStore::open(self.0.options.clone()).await.unwrap()
    }
}

// --- TestDatabase ---

impl TestDatabase {
    /// A database that is not there yet: the store makes it.
    pub(crate) async fn fresh() -> Self {
        let server = tokio::task::spawn_blocking(k3_test_services::mysql)
            .await
            .unwrap();
        let number = RandomState::new().build_hasher().finish();
        Self {
            server,
            options: MysqlOptions {
                database: format!("k3_suite_{number:016x}"),
                ..server_options(server)
            },
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE IF EXISTS `{}`", self.options.database);
        let server = self.server;
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let mut connection = MySqlConnection::connect(server).await?;
                connection.execute(AssertSqlSafe(statement)).await
            })
        });
        if let Err(error) = dropped.join().expect("it does not panic") {
            eprintln!("a database is left behind: {error}");
        }
    }
}
