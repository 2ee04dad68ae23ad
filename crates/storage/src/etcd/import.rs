//! Filling an empty store from another.
//!
//! The state key says "importing" from the first step to the last, so whatever happens in between,
//! nobody takes a half-filled store for a whole one. Entries get new revisions; the offset makes them
//! higher than all of the source.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use tokio::task::JoinSet;

use super::{
    BACKEND,
    connection::Repeat,
    failure::{Failure, Refusal},
    lease::Leases,
    messages::{
        Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, ResponseOp, TxnRequest,
        TxnResponse, method,
    },
    session::Session,
    state::{Phase, State},
};
use crate::{Clock, Entry, Expiry, Import, ImportError, Key, Prefix, Revision, StoreError, SystemClock};

/// Operations in one transaction; etcd's default limit is 128.
const MAX_OPERATIONS: usize = 100;
/// Bytes in one transaction; etcd's default limit is 1.5 MiB. A larger entry goes alone.
const MAX_BYTES: usize = 1 << 20;
/// Leases asked for at once.
const MAX_GRANTS: usize = 64;

struct EtcdImport {
    session: Arc<Session>,
    leases: Arc<Leases>,
    /// The state that this import has written. When another is found, somebody has begun again.
    state: State,
}

/// Marks the store as being imported, and empties it.
pub(super) async fn begin(
    session: Arc<Session>,
    leases: Arc<Leases>,
    source: Revision,
) -> Result<Box<dyn Import>, ImportError> {
    let state = mark(&session, source).await?;
    let import = EtcdImport {
        session,
        leases,
        state,
    };
    import.clear().await?;
    Ok(Box::new(import))
}

async fn mark(session: &Session, source: Revision) -> Result<State, ImportError> {
    let deadline = session.deadline();
    let explain = |failure| ImportError::Store(session.store_error(failure));
    loop {
        let (state, etcd) = session.read_state(deadline).await.map_err(explain)?;
        // Every entry is written after `etcd`, and so gets a revision above the source's.
        let ahead = source.get().saturating_sub(u64::try_from(etcd).unwrap_or(0));
        let offset = state.offset.max(ahead);
        let mut compare = vec![Compare::written_at(session.keys.state(), state.written)];
        if state.phase == Phase::Open {
            let entries = session.keys.entries(&Prefix::all(), None);
            compare.push(Compare::nothing_in(entries.start, entries.end));
        }
        let txn = TxnRequest {
            compare,
            success: vec![
                PutRequest {
                    key: session.keys.state(),
                    value: State::text(Phase::Importing, offset, state.import),
                    lease: 0,
                }
                .into(),
            ],
            failure: vec![RangeRequest::of(session.keys.state()).into()],
        };
        // Marking twice is harmless: the second mark holds.
        let mut answer: TxnResponse = session
            .connection
            .call(method::TXN, txn, Repeat::Harmless, deadline)
            .await
            .map_err(explain)?;
        if answer.succeeded {
            let state = State {
                phase: Phase::Importing,
                offset,
                written: answer.revision(),
                ..state
            };
            session.learn(state);
            return Ok(state);
        }
        let found = answer
            .responses
            .pop()
            .map(ResponseOp::into_range)
            .unwrap_or_default();
        if State::parse(found.kvs.first())?.written == state.written {
            return Err(ImportError::NotEmpty);
        }
    }
}

// --- EtcdImport ---

impl EtcdImport {
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
            let found = found.pop().map(ResponseOp::into_range).unwrap_or_default();
            let Some(last) = found.kvs.into_iter().next_back() else {
                return Ok(());
            };
            let mut behind = Vec::from(last.key);
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
            .call(method::TXN, txn, Repeat::Harmless, self.session.deadline())
            .await
            .map_err(|failure| self.explain(failure))?;
        if !answer.succeeded {
            return Err(StoreError::UnfinishedImport.into());
        }
        Ok(answer.responses)
    }

    /// Takes a lease for each entry that expires. One each, although many expire together: what hangs
    /// on one lease is deleted in one revision, and a revision is to be one event.
    async fn grant(&self, entries: &[Entry]) -> Result<HashMap<Key, i64>, ImportError> {
        let mut waiting = entries
            .iter()
            .filter_map(|entry| Some((entry.key.clone(), entry.expiry?)));
        let mut grants = JoinSet::new();
        let mut granted = HashMap::new();
        loop {
            while grants.len() < MAX_GRANTS
                && let Some((key, expiry)) = waiting.next()
            {
                let session = Arc::clone(&self.session);
                let leases = Arc::clone(&self.leases);
                grants.spawn(async move {
                    let now = SystemClock.now();
                    // A deadline set by a clock that was wrong is not to be kept for ever.
                    let expiry = Expiry {
                        deadline_ms: Expiry::after(now, expiry.left(now)).deadline_ms,
                        ..expiry
                    };
                    let lease = leases
                        .grant(&session.connection, expiry, now, session.deadline())
                        .await?;
                    Ok::<_, Failure>((key, lease))
                });
            }
            let Some(grant) = grants.join_next().await else {
                return Ok(granted);
            };
            let (key, lease) = grant
                .expect("granting a lease neither panics nor is aborted")
                .map_err(|failure| self.explain(failure))?;
            granted.insert(key, lease);
        }
    }

    fn explain(&self, failure: Failure) -> ImportError {
        if failure.refusal() == Some(Refusal::TooLarge) {
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

#[async_trait]
impl Import for EtcdImport {
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), ImportError> {
        let leases = self.grant(&entries).await?;
        let mut batch: Vec<RequestOp> = Vec::new();
        let mut bytes = 0;
        for entry in entries {
            let weight = entry.key.len() + entry.value.len();
            if !batch.is_empty() && (batch.len() == MAX_OPERATIONS || bytes + weight > MAX_BYTES) {
                self.run(std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
            bytes += weight;
            let put = PutRequest {
                key: self.session.keys.entry(&entry.key),
                lease: leases.get(&entry.key).copied().unwrap_or(0),
                value: entry.value,
            };
            batch.push(put.into());
        }
        if !batch.is_empty() {
            self.run(batch).await?;
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Revision, ImportError> {
        let open = PutRequest {
            key: self.session.keys.state(),
            value: State::text(Phase::Open, self.state.offset, self.state.written),
            lease: 0,
        };
        let outcome = self.run(vec![open.into()]).await;
        // It may have happened although the answer got lost: the state tells.
        let (state, _) = self
            .session
            .read_state(self.session.deadline())
            .await
            .map_err(|failure| self.session.store_error(failure))?;
        if state.phase == Phase::Open && state.import == self.state.written {
            return Ok(state.floor());
        }
        outcome?;
        // Finished, and begun again by somebody else.
        Err(StoreError::UnfinishedImport.into())
    }
}
