//! Fills an empty store with the entries of another, at the revisions they have.
//!
//! `k3_store.importing` names the import under way. While it is set every read and write of every
//! process is refused; each step of an import checks, under the counter's lock, that it is still its
//! own number that stands there.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use async_trait::async_trait;

use super::{
    connection::Connection,
    failure::{Failure, unavailable},
    plan::Planned,
    row::{Head, Kind, Logged},
    statement::{MAX_ROWS, fits, row_bytes},
    store::Shared,
    transaction::{insert_log, lock, upsert_names},
};
use crate::{Entry, Import, ImportError, Revision};

/// Rows deleted at a time when an import clears the store.
const PIECE: u64 = 1000;
const CLEAR_NAMES: &str = "DELETE FROM k3_names ORDER BY name LIMIT 1000";
const CLEAR_LOG: &str = "DELETE FROM k3_log ORDER BY revision LIMIT 1000";

/// An import into the database.
pub(super) struct MysqlImport {
    shared: Arc<Shared>,
    source: Revision,
    /// What `k3_store.importing` says while this is the import under way.
    token: u64,
}

// --- MysqlImport ---

impl MysqlImport {
    /// Closes the store to everybody else and clears it.
    pub(super) async fn begin(shared: Arc<Shared>, source: Revision) -> Result<Self, ImportError> {
        let token = RandomState::new().hash_one(source.get());
        let import = Self {
            shared,
            source,
            token,
        };
        if !import.shared.pool.once(import.claim()).await? {
            return Err(ImportError::NotEmpty);
        }
        for sql in [CLEAR_NAMES, CLEAR_LOG] {
            while import.shared.pool.once(import.clear(sql)).await? == PIECE {}
        }
        Ok(import)
    }

    /// Makes this the import under way, unless the store is in use and has entries.
    async fn claim(&self) -> Result<bool, Failure> {
        let mut lease = self.shared.pool.lease().await?;
        let connection = &mut lease.connection;
        connection.plain("START TRANSACTION").await?;
        let head = lock(connection).await?;
        let free = head.importing.is_some() || !holds_entries(connection).await?;
        if free {
            let claim = sqlx::query("UPDATE k3_store SET importing = ? WHERE id = 1").bind(self.token);
            connection.run(claim).await?;
        }
        connection.plain("COMMIT").await?;
        lease.release();
        Ok(free)
    }

    async fn clear(&self, sql: &'static str) -> Result<u64, Failure> {
        let mut lease = self.shared.pool.lease().await?;
        self.begin_step(&mut lease.connection).await?;
        let cleared = lease.connection.run(sqlx::query(sql)).await?;
        lease.connection.plain("COMMIT").await?;
        lease.release();
        Ok(cleared)
    }

    async fn store(&self, entries: &[Entry]) -> Result<(), Failure> {
        let mut lease = self.shared.pool.lease().await?;
        let connection = &mut lease.connection;
        let commits: Vec<_> = entries.iter().map(imported).collect();
        for Planned { logged, .. } in &commits {
            if !fits(row_bytes(&logged.key, &logged.value), connection.max_packet) {
                return Err(Failure::Lasting(unavailable(format!(
                    "the value of {} has {} bytes, more than max_allowed_packet of the server lets through",
                    logged.key,
                    logged.value.len()
                ))));
            }
        }
        self.begin_step(connection).await?;
        insert_log(connection, &commits).await?;
        let names: Vec<_> = commits.iter().map(|commit| &commit.logged).collect();
        upsert_names(connection, &names).await?;
        connection.plain("COMMIT").await?;
        lease.release();
        Ok(())
    }

    async fn open(&self) -> Result<Revision, Failure> {
        let mut lease = self.shared.pool.lease().await?;
        let connection = &mut lease.connection;
        let head = self.begin_step(connection).await?;
        let current = head.revision.max(self.source);
        let sweep = sqlx::query("UPDATE k3_sweep SET revision = ? WHERE id = 1").bind(current.get());
        connection.run(sweep).await?;
        let open =
            sqlx::query("UPDATE k3_store SET revision = ?, compacted = ?, importing = NULL WHERE id = 1");
        connection
            .run(open.bind(current.get()).bind(current.get()))
            .await?;
        connection.plain("COMMIT").await?;
        lease.release();
        Ok(current)
    }

    /// Begins a transaction in which this is the import under way.
    async fn begin_step(&self, connection: &mut Connection) -> Result<Head, Failure> {
        connection.plain("START TRANSACTION").await?;
        let head = lock(connection).await?;
        if head.importing == Some(self.token) {
            return Ok(head);
        }
        Err(Failure::Lasting(unavailable(
            "another import has begun since, or this one has ended",
        )))
    }
}

#[async_trait]
impl Import for MysqlImport {
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), ImportError> {
        for piece in entries.chunks(MAX_ROWS) {
            self.shared.check_open()?;
            self.shared.pool.once(self.store(piece)).await?;
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Revision, ImportError> {
        self.shared.check_open()?;
        let current = self.shared.pool.once(self.open()).await?;
        // Here the watchers learn of it before anybody can write; elsewhere a moment later.
        self.shared.catch_up(current).await?;
        Ok(current)
    }
}

async fn holds_entries(connection: &mut Connection) -> Result<bool, Failure> {
    let statement = sqlx::query("SELECT 1 FROM k3_names WHERE deleted = 0 LIMIT 1");
    Ok(!connection.rows(statement).await?.is_empty())
}

fn imported(entry: &Entry) -> Planned {
    Planned {
        logged: Logged {
            revision: entry.revision,
            key: entry.key.clone(),
            kind: Kind::Created,
            nonce: 0,
            expiry: entry.expiry,
            value: entry.value.clone(),
        },
        previous: None,
    }
}
