//! A server of its own for each test, and short text for what tests do with stores.

use std::{path::Path, sync::Arc, time::Duration};

use k3_storage::{
    Change, Event, Key, Prefix, Revision, Store, WatchStream, Write,
    mysql::{MysqlOptions, MysqlStore},
};
use k3_test_services::{MariaDb, MariaDbOptions, MysqlServer};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, mysql::MySqlConnection};
use tokio::time::timeout;

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct TestServer {
    pub(crate) process: MariaDb,
    pub(crate) options: MysqlOptions,
}

impl TestServer {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        Self::start_as(&MariaDbOptions {
            args: args.iter().map(ToString::to_string).collect(),
            ..MariaDbOptions::default()
        })
    }

    /// A server that keeps its data under this directory.
    pub(crate) fn start_on(directory: &Path) -> Self {
        Self::start_as(&MariaDbOptions {
            parent: Some(directory.to_owned()),
            ..MariaDbOptions::default()
        })
    }

    fn start_as(options: &MariaDbOptions) -> Self {
        let process = MariaDb::start_with(options).unwrap();
        let options = options_of(&process.url());
        Self { process, options }
    }

    pub(crate) async fn open(&self) -> Arc<MysqlStore> {
        MysqlStore::open(self.options.clone()).await.unwrap()
    }

    /// A connection past the store.
    pub(crate) async fn admin(&self) -> MySqlConnection {
        let url = format!("{}/{}", self.process.url(), self.options.database);
        MySqlConnection::connect(&url).await.unwrap()
    }
}

/// Options for the server at `mysql://user:password@host:port`.
fn options_of(url: &str) -> MysqlOptions {
    let server = MysqlServer::from_url(url);
    MysqlOptions {
        host: server.host,
        port: server.port,
        user: server.user,
        password: server.password,
        ..MysqlOptions::default()
    }
}

pub(crate) fn key(text: impl AsRef<str>) -> Key {
    Key::try_new(text).unwrap()
}

pub(crate) async fn create(store: &MysqlStore, name: &str, value: &'static str) -> Revision {
    store.commit(Write::create(key(name), value)).await.unwrap()
}

pub(crate) async fn update(
    store: &MysqlStore,
    name: &str,
    revision: Revision,
    value: &'static str,
) -> Revision {
    store
        .commit(Write::update(key(name), revision, value))
        .await
        .unwrap()
}

pub(crate) async fn delete(store: &MysqlStore, name: &str, revision: Revision) -> Revision {
    store.commit(Write::delete(key(name), revision)).await.unwrap()
}

/// Watches everything after `after`.
pub(crate) async fn watch(store: &MysqlStore, after: Revision) -> WatchStream {
    store.watch(&Prefix::all(), after).await.unwrap()
}

/// Reads a watch until an event has revision `upto`.
pub(crate) async fn events_upto(events: &mut WatchStream, upto: Revision) -> Vec<Event> {
    let mut seen: Vec<Event> = Vec::new();
    while seen.last().is_none_or(|last| last.revision < upto) {
        let batch = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
        seen.extend(batch.events.iter().cloned());
    }
    seen
}

/// Asserts that events have every revision after `after`, once, in order.
pub(crate) fn assert_whole(events: &[Event], after: Revision) {
    let found: Vec<_> = events.iter().map(|event| event.revision.get()).collect();
    let expected: Vec<_> = (after.get() + 1..).take(found.len()).collect();
    assert_eq!(found, expected);
}

pub(crate) fn value(event: &Event) -> Option<&[u8]> {
    match &event.change {
        Change::Created(value) | Change::Updated(value) => Some(value),
        Change::Deleted => None,
    }
}

pub(crate) async fn number(admin: &mut MySqlConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(admin).await.unwrap()
}

pub(crate) async fn run(admin: &mut MySqlConnection, sql: impl Into<String>) {
    admin.execute(AssertSqlSafe(sql.into())).await.unwrap();
}

/// Asks until the answer is yes.
pub(crate) async fn eventually(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let waited = timeout(PATIENCE, async {
        while !look().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "waited in vain: {what}");
}
