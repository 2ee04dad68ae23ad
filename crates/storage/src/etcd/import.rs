//! Filling an empty store from another.
//!
//! The state key says "importing" from the first step to the last, so whatever happens in between,
//! nobody takes a half-filled store for a whole one. Entries get new revisions; the offset makes them
//! higher than all of the source.

use std::sync::Arc;

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
use crate::{Clock, Entry, Expiry, Import, ImportError, Prefix, Revision, StoreError, SystemClock};

/// Entries written at once. etcd makes those that come together durable together.
const CONCURRENT: usize = 128;

#[derive(Clone)]
struct EtcdImport {
    session: Arc<Session>,
    leases: Arc<Leases>,
    /// The state that this import has written. When another is found, somebody has begun again.
    state: State,
}

/// What a store that is to be filled may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Nothing, or what an import that did not finish has left.
    Nothing,
    /// Anything: it is given up.
    Anything,
}

/// Marks the store as being imported, whatever it holds. The import that follows empties it.
pub(super) async fn discard(session: &Session) -> Result<(), ImportError> {
    mark(session, Revision::ZERO, Held::Anything).await.map(drop)
}

/// Marks the store as being imported, and empties it.
pub(super) async fn begin(
    session: Arc<Session>,
    leases: Arc<Leases>,
    source: Revision,
) -> Result<Box<dyn Import>, ImportError> {
    let state = mark(&session, source, Held::Nothing).await?;
    let import = EtcdImport {
        session,
        leases,
        state,
    };
    import.clear().await?;
    Ok(Box::new(import))
}

async fn mark(session: &Session, source: Revision, held: Held) -> Result<State, ImportError> {
    let deadline = session.deadline();
    let explain = |failure| ImportError::Store(session.store_error(failure));
    loop {
        let (state, etcd) = session.read_state(deadline).await.map_err(explain)?;
        // Every entry is written after `etcd`, and so gets a revision above the source's.
        let ahead = source.get().saturating_sub(u64::try_from(etcd).unwrap_or(0));
        let offset = state.offset.max(ahead);
        let mut compare = vec![Compare::written_at(session.keys.state(), state.written)];
        if state.phase == Phase::Open && held == Held::Nothing {
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
            .call(method::TXN, txn, Repeat::Harmless, self.session.deadline())
            .await
            .map_err(|failure| self.explain(failure))?;
        if !answer.succeeded {
            return Err(ImportError::Superseded);
        }
        Ok(answer.responses)
    }

    /// Writes one entry, alone: entries of one transaction would share a revision, and so would, if
    /// they shared a lease, their deletions.
    async fn write(&self, entry: Entry) -> Result<(), ImportError> {
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
        Ok(())
    }

    async fn grant(&self, expiry: Expiry) -> Result<i64, ImportError> {
        let now = SystemClock.now();
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
        let mut entries = entries.into_iter();
        let mut writes = JoinSet::new();
        loop {
            while writes.len() < CONCURRENT
                && let Some(entry) = entries.next()
            {
                let import = self.clone();
                writes.spawn(async move { import.write(entry).await });
            }
            match writes.join_next().await {
                Some(outcome) => outcome.expect("a write neither panics nor is aborted")?,
                None => return Ok(()),
            }
        }
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
        // Finished, and begun again by somebody else before we looked.
        Err(ImportError::Superseded)
    }
}
