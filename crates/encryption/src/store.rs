//! A store that encrypts the values of another store.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use k3_storage::{
    Change, CommitError, DelegatingStore, Entry, Event, EventBatch, Key, Operation, Page, Prefix, Range,
    ReadError, Revision, Store, StoreError, WatchError, WatchSource, WatchStream, Write,
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    provider::EncryptError,
    transformer::{Outcome, Transformers},
    unreadable::stand_in,
};

/// How long a watch waits for an unavailable plugin per batch of events. Later batches wait too.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const RETRY: Duration = Duration::from_millis(200);

/// A store whose values are encrypted in another store. An import passes values on as they are: those of another store are
/// encrypted there already.
///
/// A value that cannot be decrypted is returned as bytes for which [`undecrypted`](crate::undecrypted) gives the reason. While
/// a plugin is unavailable, reads that need it fail.
pub struct EncryptedStore {
    inner: Arc<dyn Store>,
    transformers: Arc<Transformers>,
}

/// A watch, decrypted.
struct DecryptedEvents {
    inner: WatchStream,
    transformers: Arc<Transformers>,
    /// A batch that has arrived and is not decrypted yet: the future may be dropped on the way.
    waiting: Option<EventBatch>,
}

// --- EncryptedStore ---

impl EncryptedStore {
    /// Encrypts the values that are written to `inner`.
    pub fn new(inner: Arc<dyn Store>, transformers: Arc<Transformers>) -> Arc<Self> {
        Arc::new(Self { inner, transformers })
    }

    /// The store with the encrypted values.
    pub(crate) fn encrypted(&self) -> &dyn Store {
        &*self.inner
    }

    pub(crate) fn transformers(&self) -> &Transformers {
        &self.transformers
    }

    async fn decrypt_entry(&self, entry: &mut Entry) -> Result<(), StoreError> {
        match self.transformers.decrypt(&entry.key, &entry.value).await {
            Outcome::Plain { .. } => {}
            Outcome::Decrypted { value, .. } => entry.value = value,
            Outcome::Failed(reason) => entry.value = failed(&entry.key, &reason),
            Outcome::Unavailable(reason) => return Err(unavailable(reason)),
        }
        Ok(())
    }
}

/// Logs a value that cannot be decrypted, and returns its placeholder.
fn failed(key: &Key, reason: &str) -> Bytes {
    tracing::error!(%key, reason, "cannot decrypt a stored object");
    stand_in(reason)
}

fn unavailable(message: String) -> StoreError {
    StoreError::Unavailable {
        backend: "encrypted",
        message,
        source: None,
    }
}

#[async_trait]
impl DelegatingStore for EncryptedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, ReadError> {
        let Some(mut entry) = self.inner.get(key).await? else {
            return Ok(None);
        };
        self.decrypt_entry(&mut entry).await?;
        Ok(Some(entry))
    }

    async fn range(&self, prefix: &Prefix, page: Page) -> Result<Range, ReadError> {
        let mut range = self.inner.range(prefix, page).await?;
        for entry in &mut range.entries {
            self.decrypt_entry(entry).await?;
        }
        Ok(range)
    }

    async fn commit(&self, mut write: Write) -> Result<Revision, CommitError> {
        if let Operation::Put { value, .. } = &mut write.operation {
            match self.transformers.encrypt(&write.key, value).await {
                Ok(None) => {}
                Ok(Some(encrypted)) => *value = encrypted,
                Err(error) => {
                    tracing::error!(key = %write.key, %error, "cannot encrypt an object");
                    let message = match error {
                        EncryptError::Kms(why) => why,
                        error => format!("cannot encrypt the object: {error}"),
                    };
                    return Err(CommitError::Store(unavailable(message)));
                }
            }
        }
        match self.inner.commit(write).await {
            Err(CommitError::Conflict(Some(mut entry))) => {
                self.decrypt_entry(&mut entry).await?;
                Err(CommitError::Conflict(Some(entry)))
            }
            committed => committed,
        }
    }

    async fn watch(&self, prefix: &Prefix, after: Revision) -> Result<WatchStream, WatchError> {
        Ok(WatchStream::new(DecryptedEvents {
            inner: self.inner.watch(prefix, after).await?,
            transformers: Arc::clone(&self.transformers),
            waiting: None,
        }))
    }

    async fn is_stale(&self, key: &Key) -> Result<bool, ReadError> {
        if !self.transformers.has_rule(key) {
            return Ok(false);
        }
        let Some(entry) = self.inner.get(key).await? else {
            return Ok(false);
        };
        match self.transformers.decrypt(key, &entry.value).await {
            Outcome::Plain { is_stale } | Outcome::Decrypted { is_stale, .. } => Ok(is_stale),
            Outcome::Failed(_) => Ok(false),
            Outcome::Unavailable(reason) => Err(unavailable(reason).into()),
        }
    }
}

// --- DecryptedEvents ---

async fn decrypt_batch(transformers: &Transformers, batch: &EventBatch) -> EventBatch {
    let mut patience = BatchPatience::begin();
    let mut events: Option<Vec<Event>> = None;
    for (at, event) in batch.events.iter().enumerate() {
        let (Change::Created(stored) | Change::Updated(stored)) = &event.change else {
            continue;
        };
        let Some(value) = decrypt_value(transformers, &event.key, stored, &mut patience).await else {
            continue;
        };
        let events = events.get_or_insert_with(|| batch.events.to_vec());
        events[at].change = match event.change {
            Change::Created(_) => Change::Created(value),
            _ => Change::Updated(value),
        };
    }
    match events {
        None => batch.clone(),
        Some(events) => EventBatch {
            events: events.into(),
            revision: batch.revision,
        },
    }
}

/// How long the events of one batch wait for plugins, together.
struct BatchPatience {
    end: Instant,
    /// The error of a plugin that timed out; later calls fail with it at once.
    lost: Option<String>,
}

// --- BatchPatience ---

impl BatchPatience {
    fn begin() -> Self {
        Self {
            end: Instant::now() + PATIENCE,
            lost: None,
        }
    }

    /// Returns the result of an attempt, or `None` after the timeout.
    async fn bound<T>(&self, attempt: impl Future<Output = T>) -> Option<T> {
        // After the timeout, values of the unavailable plugin fail immediately; values of other providers are still decrypted.
        let end = if self.lost.is_some() {
            Instant::now()
        } else {
            self.end
        };
        timeout_at(end, attempt).await.ok()
    }

    /// Stops and returns the reason.
    fn lose(&mut self, reason: String) -> &str {
        self.lost.get_or_insert(reason)
    }
}

/// The value, if it is not stored as it is.
async fn decrypt_value(
    transformers: &Transformers,
    key: &Key,
    stored: &[u8],
    patience: &mut BatchPatience,
) -> Option<Bytes> {
    loop {
        let reason = match patience.bound(transformers.decrypt(key, stored)).await {
            Some(Outcome::Plain { .. }) => return None,
            Some(Outcome::Decrypted { value, .. }) => return Some(value),
            Some(Outcome::Failed(reason)) => return Some(failed(key, &reason)),
            Some(Outcome::Unavailable(reason)) => reason,
            None => "the plugin does not answer in time".to_owned(),
        };
        if patience.lost.is_some() || Instant::now() + RETRY >= patience.end {
            return Some(failed(key, patience.lose(reason)));
        }
        sleep(RETRY).await;
    }
}

#[async_trait]
impl WatchSource for DecryptedEvents {
    async fn next(&mut self) -> Result<EventBatch, WatchError> {
        if self.waiting.is_none() {
            self.waiting = Some(self.inner.next().await?);
        }
        let waiting = self.waiting.as_ref().expect("a batch was put there");
        let batch = decrypt_batch(&self.transformers, waiting).await;
        self.waiting = None;
        Ok(batch)
    }
}
