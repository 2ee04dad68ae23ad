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
use sqlx::Row as _;

use super::{
    commit_plan::PlannedCommit,
    connection::Connection,
    failure::{MysqlFailure, unavailable},
    row::{Kind, LogRow, StoreHead},
    statement::{MAX_ROWS, fits, row_bytes},
    store::MysqlStoreShared,
    transaction::{insert_log, lock, upsert_names},
};
use crate::{Entry, Import, ImportError, Revision};

/// Rows deleted at a time when an import clears the store.
const PIECE: u64 = 1000;
const CLEAR_NAMES: &str = "DELETE FROM k3_names ORDER BY name LIMIT 1000";
const CLEAR_LOG: &str = "DELETE FROM k3_log ORDER BY revision LIMIT 1000";

/// An import into the database.
pub(super) struct MysqlImport {
    shared: Arc<MysqlStoreShared>,
    source: Revision,
    /// What `k3_store.importing` reports while this is the import under way.
    token: u64,
}

// --- MysqlImport ---

impl MysqlImport {
    fn new(shared: Arc<MysqlStoreShared>, source: Revision) -> Self {
        Self {
            shared,
            source,
            token: RandomState::new().hash_one(source.get()),
        }
    }

    /// Closes the store to everybody else, whatever it holds. The import that follows clears it.
    pub(super) async fn discard(shared: Arc<MysqlStoreShared>) -> Result<(), ImportError> {
        let import = Self::new(shared, Revision::ZERO);
        let mark = async {
            let mut lease = import.shared.pool.lease().await?;
            lease.connection.begin().await?;
            lock(&mut lease.connection).await?;
            import.take_over(&mut lease.connection).await?;
            lease.release();
            Ok::<_, MysqlFailure>(())
        };
        Ok(import.shared.pool.once(mark).await?)
    }

    /// Closes the store to everybody else and clears it.
    pub(super) async fn begin(shared: Arc<MysqlStoreShared>, source: Revision) -> Result<Self, ImportError> {
        let import = Self::new(shared, source);
        if !import.shared.pool.once(import.claim()).await? {
            return Err(ImportError::NotEmpty);
        }
        for sql in [CLEAR_NAMES, CLEAR_LOG] {
            while import.step(import.clear(sql)).await? == PIECE {}
        }
        Ok(import)
    }

    /// Makes this the import under way, unless the store is in use and has entries.
    async fn claim(&self) -> Result<bool, MysqlFailure> {
        let mut lease = self.shared.pool.lease().await?;
        let connection = &mut lease.connection;
        connection.begin().await?;
        let head = lock(connection).await?;
        let free = head.importing.is_some() || !holds_entries(connection).await?;
        if free {
            self.take_over(connection).await?;
        } else {
            connection.roll_back().await?;
        }
        lease.release();
        Ok(free)
    }

    /// Makes this the import under way, at the end of a transaction that has the counter's lock.
    async fn take_over(&self, connection: &mut Connection) -> Result<(), MysqlFailure> {
        let claim = sqlx::query("UPDATE k3_store SET importing = ? WHERE id = 1").bind(self.token);
        connection.run(claim).await?;
        connection.commit().await?;
        Ok(())
    }

    /// Takes a step within the request time-out. It returns `None` when this import is not the one
    /// under way any more.
    async fn step<T>(
        &self,
        step: impl Future<Output = Result<Option<T>, MysqlFailure>>,
    ) -> Result<T, ImportError> {
        self.shared.check_open()?;
        let taken = self.shared.pool.once(step).await?;
        taken.ok_or(ImportError::Superseded)
    }

    async fn clear(&self, sql: &'static str) -> Result<Option<u64>, MysqlFailure> {
        let mut lease = self.shared.pool.lease().await?;
        if self.begin_step(&mut lease.connection).await?.is_none() {
            return Ok(None);
        }
        let cleared = lease.connection.run(sqlx::query(sql)).await?;
        lease.connection.commit().await?;
        lease.release();
        Ok(Some(cleared))
    }

    async fn store(&self, entries: &[Entry]) -> Result<Option<()>, MysqlFailure> {
        let mut lease = self.shared.pool.lease().await?;
        let connection = &mut lease.connection;
        let commits: Vec<_> = entries.iter().map(imported).collect();
        for PlannedCommit { logged, .. } in &commits {
            if !fits(row_bytes(&logged.key, &logged.value), connection.max_packet) {
                return Err(MysqlFailure::Permanent(unavailable(format!(
                    "the value of {} has {} bytes, more than max_allowed_packet of the server lets through",
                    logged.key,
                    logged.value.len()
                ))));
            }
        }
        if self.begin_step(connection).await?.is_none() {
            return Ok(None);
        }
        insert_log(connection, &commits).await?;
        let names: Vec<_> = commits.iter().map(|commit| &commit.logged).collect();
        upsert_names(connection, &names).await?;
        connection.commit().await?;
        lease.release();
        Ok(Some(()))
    }

    async fn open(&self) -> Result<Option<Revision>, MysqlFailure> {
        let mut lease = self.shared.pool.lease().await?;
        let connection = &mut lease.connection;
        let Some(head) = self.begin_step(connection).await? else {
            return Ok(None);
        };
        // The source's own word for where it stands is not trusted alone: no entry may be in the future.
        // And a caller that listed nothing here at a revision must not find something at the same one.
        let newest = newest_commit(connection).await?;
        let past = match newest {
            Some(_) => head.revision.next(),
            None => head.revision,
        };
        let current = self.source.max(past).max(newest.unwrap_or_default());
        let sweep = sqlx::query("UPDATE k3_sweep SET revision = ? WHERE id = 1").bind(current.get());
        connection.run(sweep).await?;
        let open =
            sqlx::query("UPDATE k3_store SET revision = ?, compacted = ?, importing = NULL WHERE id = 1");
        connection
            .run(open.bind(current.get()).bind(current.get()))
            .await?;
        connection.commit().await?;
        lease.release();
        Ok(Some(current))
    }

    /// Begins a transaction in which this is the import under way, if it still is.
    async fn begin_step(&self, connection: &mut Connection) -> Result<Option<StoreHead>, MysqlFailure> {
        connection.begin().await?;
        let head = lock(connection).await?;
        Ok((head.importing == Some(self.token)).then_some(head))
    }
}

#[async_trait]
impl Import for MysqlImport {
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), ImportError> {
        for piece in entries.chunks(MAX_ROWS) {
            self.step(self.store(piece)).await?;
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Revision, ImportError> {
        let current = self.step(self.open()).await?;
        // Here the watchers learn of it before anybody can write; elsewhere a moment later.
        self.shared.catch_up(current).await?;
        Ok(current)
    }
}

async fn holds_entries(connection: &mut Connection) -> Result<bool, MysqlFailure> {
    let statement = sqlx::query("SELECT 1 FROM k3_names WHERE deleted = 0 LIMIT 1");
    Ok(!connection.rows(statement).await?.is_empty())
}

async fn newest_commit(connection: &mut Connection) -> Result<Option<Revision>, MysqlFailure> {
    let statement = sqlx::query("SELECT MAX(revision) FROM k3_log");
    let rows = connection.rows(statement).await?;
    let newest = rows.first().map_or(Ok(None), |row| row.try_get(0));
    let newest: Option<u64> = newest.map_err(|error| connection.misread(error))?;
    Ok(newest.map(Revision::new))
}

fn imported(entry: &Entry) -> PlannedCommit {
    PlannedCommit {
        logged: LogRow {
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
