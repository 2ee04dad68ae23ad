//! Filling an empty store from another.
//!
//! The state key reports "importing" from the first step to the last, so whatever happens in between,
//! no process takes a half-filled store for a whole one. Entries get new revisions; the offset makes them
//! higher than all of the source.

use std::sync::Arc;

use async_trait::async_trait;
use k3_task::Clock;
use tokio::task::JoinSet;

use super::{
    BACKEND,
    connection::RetryPolicy,
    failure::{EtcdFailure, EtcdRejection},
    lease::LeaseGrants,
    messages::{
        Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, ResponseOp, TxnRequest,
        TxnResponse, method,
    },
    session::{EtcdSession, range_of},
    state::{EtcdStorePhase, EtcdStoreState},
};
use crate::{Entry, Expiry, Import, ImportError, Prefix, Revision, StoreError};

/// Entries written at once. etcd makes those that arrive together durable together.
const CONCURRENT: usize = 256;
/// Bytes written at once, give or take an entry.
const CONCURRENT_BYTES: usize = 8 * 1024 * 1024;

struct EtcdImport {
    writer: ImportWriter,
    /// Each reports how many bytes it has written.
    writes: JoinSet<Result<usize, ImportError>>,
    bytes_under_way: usize,
}

/// Writes for one import.
#[derive(Clone)]
struct ImportWriter {
    session: Arc<EtcdSession>,
    leases: Arc<LeaseGrants>,
    /// The state that this import has written. When another is found, another process has begun again.
    state: EtcdStoreState,
}

/// What a store that is to be filled may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImportTarget {
    /// Nothing, or what an import that did not finish has left.
    Nothing,
    /// Anything: it is given up.
    Anything,
}

/// Marks the store as being imported, whatever it holds. The import that follows empties it.
pub(super) async fn discard(session: &EtcdSession) -> Result<(), ImportError> {
    mark(session, Revision::ZERO, ImportTarget::Anything)
        .await
        .map(drop)
}

/// Marks the store as being imported, and empties it.
pub(super) async fn begin(
    session: Arc<EtcdSession>,
    leases: Arc<LeaseGrants>,
    source: Revision,
) -> Result<Box<dyn Import>, ImportError> {
    let state = mark(&session, source, ImportTarget::Nothing).await?;
    let writer = ImportWriter {
        session,
        leases,
        state,
    };
    writer.clear().await?;
    Ok(Box::new(EtcdImport {
        writer,
        writes: JoinSet::new(),
        bytes_under_way: 0,
    }))
}

async fn mark(
    session: &EtcdSession,
    source: Revision,
    held: ImportTarget,
) -> Result<EtcdStoreState, ImportError> {
    let deadline = session.deadline();
    let explain = |failure| ImportError::Store(session.store_error(failure));
    loop {
        let (state, etcd) = session.read_state(deadline).await.map_err(explain)?;
        // Every entry is written after `etcd`, and so gets a revision above the source's.
        let ahead = source.get().saturating_sub(u64::try_from(etcd).unwrap_or(0));
        let offset = state.offset.max(ahead);
        let mut compare = vec![Compare::written_at(session.keys.state(), state.written)];
        if state.phase == EtcdStorePhase::Open && held == ImportTarget::Nothing {
            let entries = session.keys.entries(&Prefix::all(), None);
            compare.push(Compare::nothing_in(entries.start, entries.end));
        }
        let txn = TxnRequest {
            compare,
            success: vec![
                PutRequest {
                    key: session.keys.state(),
                    value: EtcdStoreState::text(EtcdStorePhase::Importing, offset, state.import),
                    lease: 0,
                }
                .into(),
            ],
            failure: vec![RangeRequest::of(session.keys.state()).into()],
        };
        // Marking twice is harmless: the second mark holds.
        let mut answer: TxnResponse = session
            .connection
            .call(method::TXN, txn, RetryPolicy::Harmless, deadline)
            .await
            .map_err(explain)?;
        if answer.succeeded {
            let state = EtcdStoreState {
                phase: EtcdStorePhase::Importing,
                offset,
                written: answer.revision(),
                ..state
            };
            session.learn(state);
            return Ok(state);
        }
        if EtcdStoreState::read(answer.responses.pop())?.written == state.written {
            return Err(ImportError::NotEmpty);
        }
    }
}

// --- ImportWriter ---

impl ImportWriter {
    /// Deletes what an import that did not finish has left, a part at a time: one deletion of
    /// everything would keep etcd busy for longer than a request may take.
    async fn clear(&self) -> Result<(), ImportError> {
        let span = self.session.keys.entries(&Prefix::all(), None);
        loop {
            let some = RangeRequest {
                key: span.start.clone(),
                range_end: span.end.clone(),
                limit: 1000,
                keys_only: true,
                revision: 0,
            };
            let mut found = self.run(vec![some.into()]).await?;
            let found = range_of(found.pop())?;
            let Some(last) = found.kvs.into_iter().next_back() else {
                return Ok(());
            };
            let mut behind = last.key;
            behind.push(0);
            let delete = DeleteRangeRequest {
                key: span.start.clone(),
                range_end: behind.into(),
            };
            self.run(vec![delete.into()]).await?;
        }
    }

    /// Runs operations, if the import is still ours. All of ours can be repeated without harm.
    async fn run(&self, operations: Vec<RequestOp>) -> Result<Vec<ResponseOp>, ImportError> {
        self.session.check_open()?;
        let txn = TxnRequest {
            compare: vec![Compare::written_at(self.session.keys.state(), self.state.written)],
            success: operations,
            failure: Vec::new(),
        };
        let answer: TxnResponse = self
            .session
            .connection
            .call(method::TXN, txn, RetryPolicy::Harmless, self.session.deadline())
            .await
            .map_err(|failure| self.explain(failure))?;
        if !answer.succeeded {
            return Err(ImportError::Superseded);
        }
        Ok(answer.responses)
    }

    /// Writes one entry, alone: entries of one transaction would share a revision, and so would, if
    /// they shared a lease, their deletions. Answers with how many bytes these were.
    async fn write(&self, entry: Entry) -> Result<usize, ImportError> {
        let bytes = entry.value.len();
        let lease = match entry.expiry {
            Some(expiry) => self.grant(expiry).await?,
            None => 0,
        };
        let put = PutRequest {
            key: self.session.keys.entry(&entry.key),
            value: entry.value,
            lease,
        };
        self.run(vec![put.into()]).await?;
        Ok(bytes)
    }

    async fn grant(&self, expiry: Expiry) -> Result<i64, ImportError> {
        let now = Clock::system().system_time();
        // A deadline set by a clock that was wrong is not to be kept for ever.
        let expiry = Expiry {
            deadline_ms: Expiry::after(now, expiry.left(now)).deadline_ms,
            ..expiry
        };
        self.leases
            .grant(&self.session.connection, expiry, now, self.session.deadline())
            .await
            .map_err(|failure| self.explain(failure))
    }

    fn explain(&self, failure: EtcdFailure) -> ImportError {
        if failure.rejection() == Some(EtcdRejection::TooLarge) {
            return StoreError::Unavailable {
                backend: BACKEND,
                message: "an entry is larger than etcd takes; raise its --max-request-bytes".to_owned(),
                source: None,
            }
            .into();
        }
        self.session.store_error(failure).into()
    }
}

// --- EtcdImport ---

impl EtcdImport {
    /// Waits for one of the writes under way.
    async fn written(&mut self) -> Result<(), ImportError> {
        if let Some(outcome) = self.writes.join_next().await {
            self.bytes_under_way -= outcome.expect("a write neither panics nor is aborted")?;
        }
        Ok(())
    }
}

#[async_trait]
impl Import for EtcdImport {
    /// Does not wait for the last of them.
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), ImportError> {
        for entry in entries {
            while self.writes.len() >= CONCURRENT || self.bytes_under_way >= CONCURRENT_BYTES {
                self.written().await?;
            }
            self.bytes_under_way += entry.value.len();
            let writer = self.writer.clone();
            self.writes.spawn(async move { writer.write(entry).await });
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<Revision, ImportError> {
        while !self.writes.is_empty() {
            self.written().await?;
        }
        let ImportWriter { session, state, .. } = &self.writer;
        let open = PutRequest {
            key: session.keys.state(),
            value: EtcdStoreState::text(EtcdStorePhase::Open, state.offset, state.written),
            lease: 0,
        };
        let outcome = self.writer.run(vec![open.into()]).await;
        // It may have happened although the answer got lost: the state reports.
        let (now, _) = session
            .read_state(session.deadline())
            .await
            .map_err(|failure| session.store_error(failure))?;
        if now.phase == EtcdStorePhase::Open && now.import == state.written {
            return Ok(now.floor());
        }
        outcome?;
        // Finished, and begun again by another process before we looked.
        Err(ImportError::Superseded)
    }
}
