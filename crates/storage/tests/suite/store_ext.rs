//! What the tests do with a store, in a word each; whatever is not expected to fail must not.

use std::time::Duration;

use bytes::Bytes;
use k3_storage::{CommitError, Entry, Key, Page, Prefix, Range, Revision, Store, WatchError, Write};

use crate::follower::Follower;

/// How long a test waits for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Short text for what tests do most.
pub(crate) trait StoreExt: Store {
    /// Creates an entry.
    async fn create(&self, name: &str, value: impl Into<Bytes> + Send) -> Revision {
        self.commit(Write::create(key(name), value)).await.unwrap()
    }

    /// Replaces the entry that was written at `revision`.
    async fn update(&self, name: &str, revision: Revision, value: impl Into<Bytes> + Send) -> Revision {
        self.commit(Write::update(key(name), revision, value))
            .await
            .unwrap()
    }

    /// Removes the entry that was written at `revision`.
    async fn delete(&self, name: &str, revision: Revision) -> Revision {
        self.commit(Write::delete(key(name), revision)).await.unwrap()
    }

    /// Puts a value, whatever is there. Lets others run in between: a store in memory never makes a
    /// writer wait, and a test may loop over this until another process is done.
    async fn put(&self, name: &str, value: impl Into<Bytes> + Send) -> Revision {
        let value = value.into();
        let mut write = Write::create(key(name), value.clone());
        loop {
            tokio::task::yield_now().await;
            match self.commit(write).await {
                Ok(revision) => return revision,
                Err(CommitError::Conflict(Some(entry))) => {
                    write = Write::update(key(name), entry.revision, value.clone());
                }
                Err(CommitError::Conflict(None)) => write = Write::create(key(name), value.clone()),
                Err(error) => panic!("cannot put {name}: {error:?}"),
            }
        }
    }

    /// Tries a write that must find another state than it expects, and returns that state.
    async fn conflict(&self, write: Write) -> Option<Entry> {
        match self.commit(write.clone()).await {
            Err(CommitError::Conflict(shown)) => shown,
            other => panic!("{write:?} must conflict, but: {other:?}"),
        }
    }

    /// The entry under a key.
    async fn read(&self, name: &str) -> Option<Entry> {
        self.get(&key(name)).await.unwrap()
    }

    /// All entries under a prefix now.
    async fn list(&self, name: &str) -> Range {
        self.range(&prefix(name), Page::all()).await.unwrap()
    }

    /// All entries under a prefix at a revision.
    async fn list_at(&self, name: &str, at: Revision) -> Range {
        let page = Page {
            at: Some(at),
            ..Page::all()
        };
        self.range(&prefix(name), page).await.unwrap()
    }

    /// Where the store stands.
    async fn stands(&self) -> Revision {
        self.current_revision().await.unwrap()
    }

    /// Why a watch after `after` is refused: at once, or before it reports anything.
    async fn watch_error(&self, name: &str, after: Revision) -> WatchError {
        let mut watch = match self.watch(&prefix(name), after).await {
            Ok(events) => Follower::new(events, after),
            Err(error) => return error,
        };
        match watch.try_batch().await {
            Err(error) => error,
            Ok(batch) => panic!("a watch after {after} must be refused, but brought {batch:?}"),
        }
    }

    /// Watches a prefix.
    async fn follow(&self, name: &str, after: Revision) -> Follower {
        Follower::new(self.watch(&prefix(name), after).await.unwrap(), after)
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// A key that is known to be valid.
pub(crate) fn key(name: &str) -> Key {
    Key::try_new(name).unwrap()
}

/// A prefix that is known to be valid.
pub(crate) fn prefix(name: &str) -> Prefix {
    Prefix::try_new(name).unwrap()
}

/// The names of the entries of a range.
pub(crate) fn names(range: &Range) -> Vec<&str> {
    range.entries.iter().map(|entry| &*entry.key).collect()
}

/// The names and values of the entries of a range.
pub(crate) fn contents(range: &Range) -> Vec<(&str, &[u8])> {
    range
        .entries
        .iter()
        .map(|entry| (&*entry.key, &*entry.value))
        .collect()
}

/// Waits for what must arrive within the tests' patience.
pub(crate) async fn soon<T>(what: &str, coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, coming)
        .await
        .unwrap_or_else(|_| panic!("{what} did not happen within {PATIENCE:?}"))
}
