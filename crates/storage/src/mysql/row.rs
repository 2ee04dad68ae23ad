//! The columns of all reads.

use std::time::Duration;

use bytes::Bytes;
use sqlx::{Row as _, mysql::MySqlRow};

use crate::{Change, Entry, Event, Expiry, Key, Revision, StoreError};

/// The columns of [`StoreHead`], from the one row of `k3_store`.
macro_rules! head_columns {
    () => {
        "s.revision, s.compacted, s.importing, CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS UNSIGNED)"
    };
}

/// The columns of [`LogRow`], from a row of `k3_log`.
macro_rules! log_columns {
    () => {
        "l.revision, l.name, l.kind, l.nonce, l.expires_ms, l.ttl_ms, l.value"
    };
}

pub(super) use {head_columns, log_columns};

/// Where the columns of the log begin, behind those of the head.
pub(super) const LOG: usize = 4;
/// Where other columns begin, behind both.
pub(super) const REST: usize = 11;

/// The state of the store at a statement.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreHead {
    /// The newest commit.
    pub(super) revision: Revision,
    /// The oldest state that can be read. Not above `revision`.
    pub(super) compacted: Revision,
    /// Which import is under way.
    pub(super) importing: Option<u64>,
    /// The database's clock, in milliseconds since 1970.
    pub(super) now_ms: u64,
}

/// A row of the log: a commit.
#[derive(Clone, Debug)]
pub(super) struct LogRow {
    pub(super) revision: Revision,
    pub(super) key: Key,
    pub(super) kind: Kind,
    /// The group it was committed with.
    pub(super) nonce: u64,
    pub(super) expiry: Option<Expiry>,
    /// Empty for a deletion.
    pub(super) value: Bytes,
}

/// The kind of change of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Deleted,
    Created,
    Updated,
}

// --- StoreHead ---

impl StoreHead {
    /// Reads the head from the first columns of a row.
    pub(super) fn of(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            revision: Revision::new(row.try_get(0)?),
            compacted: Revision::new(row.try_get(1)?),
            importing: row.try_get(2)?,
            now_ms: row.try_get(3)?,
        })
    }

    /// The same, unless an import is under way.
    pub(super) fn open(self) -> Result<Self, StoreError> {
        match self.importing {
            Some(_) => Err(StoreError::UnfinishedImport),
            None => Ok(self),
        }
    }
}

// --- LogRow ---

impl LogRow {
    /// Reads a commit from the columns that begin at `first`; `None` where an outer join found none.
    pub(super) fn of(row: &MySqlRow, first: usize) -> Result<Option<Self>, sqlx::Error> {
        let Some(revision) = row.try_get(first)? else {
            return Ok(None);
        };
        let deadline_ms: Option<u64> = row.try_get(first + 4)?;
        let ttl_ms: Option<u64> = row.try_get(first + 5)?;
        let value: Vec<u8> = row.try_get(first + 6)?;
        Ok(Some(Self {
            revision: Revision::new(revision),
            key: key(row.try_get(first + 1)?)?,
            kind: Kind::of(row.try_get(first + 2)?)?,
            nonce: row.try_get(first + 3)?,
            expiry: expiry(deadline_ms, ttl_ms),
            value: value.into(),
        }))
    }

    /// The entry it left, unless it was a deletion.
    pub(super) fn into_entry(self) -> Option<Entry> {
        (self.kind != Kind::Deleted).then_some(Entry {
            key: self.key,
            value: self.value,
            revision: self.revision,
            expiry: self.expiry,
        })
    }

    /// The event for watchers.
    pub(super) fn into_event(self) -> Event {
        Event {
            revision: self.revision,
            key: self.key,
            change: match self.kind {
                Kind::Deleted => Change::Deleted,
                Kind::Created => Change::Created(self.value),
                Kind::Updated => Change::Updated(self.value),
            },
        }
    }
}

/// The key with this name.
pub(super) fn key(name: &[u8]) -> Result<Key, sqlx::Error> {
    let text = std::str::from_utf8(name).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Key::try_new(text).map_err(|error| sqlx::Error::Decode(error.into()))
}

/// The expiry these two columns stand for.
pub(super) fn expiry(deadline_ms: Option<u64>, ttl_ms: Option<u64>) -> Option<Expiry> {
    Some(Expiry {
        deadline_ms: deadline_ms?,
        ttl: Duration::from_millis(ttl_ms?),
    })
}

/// The two columns an expiry is stored in.
pub(super) fn expiry_columns(expiry: Option<Expiry>) -> (Option<u64>, Option<u64>) {
    let Some(Expiry { deadline_ms, ttl }) = expiry else {
        return (None, None);
    };
    (
        Some(deadline_ms),
        Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
    )
}

// --- Kind ---

impl Kind {
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Deleted => 0,
            Self::Created => 1,
            Self::Updated => 2,
        }
    }

    pub(super) fn of(code: u8) -> Result<Self, sqlx::Error> {
        match code {
            0 => Ok(Self::Deleted),
            1 => Ok(Self::Created),
            2 => Ok(Self::Updated),
            _ => Err(sqlx::Error::Decode(format!("{code} is no kind of commit").into())),
        }
    }
}
