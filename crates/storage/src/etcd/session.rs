//! Transactions that check the state key, so that they fail during an import and all processes agree on the revision offset.

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::Instant};

use super::{
    BACKEND,
    connection::{EtcdConnection, RetryPolicy},
    failure::{EtcdFailure, EtcdRejection},
    keyspace::Keyspace,
    messages::{Compare, RangeRequest, RangeResponse, ResponseOp, TxnRequest, TxnResponse, method},
    state::{EtcdStorePhase, EtcdStoreState},
};
use crate::{Revision, StoreError};

/// A connection and the cached state of the store.
pub(super) struct EtcdSession {
    pub(super) connection: EtcdConnection,
    pub(super) keys: Keyspace,
    /// The location of the store, for messages.
    pub(super) location: String,
    /// The newest known state. Each transaction checks that it is still current.
    state: Mutex<EtcdStoreState>,
    /// Set once, when the owner closes the store.
    closed: watch::Sender<bool>,
}

/// The response to a transaction.
pub(super) struct EtcdResponse {
    /// The state of the store during the transaction.
    pub(super) state: EtcdStoreState,
    /// The revision of etcd after it.
    pub(super) etcd: i64,
    /// Whether the comparisons succeeded.
    pub(super) held: bool,
    /// The responses of the executed operations.
    pub(super) responses: Vec<ResponseOp>,
}

// --- EtcdSession ---

impl EtcdSession {
    pub(super) fn new(
        connection: EtcdConnection,
        keys: Keyspace,
        location: String,
        state: EtcdStoreState,
    ) -> Self {
        Self {
            connection,
            keys,
            location,
            state: Mutex::new(state),
            closed: watch::Sender::new(false),
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.connection.deadline()
    }

    /// Runs a transaction on an open store. `build` is called again if another process imported in the meantime; the first attempt
    /// then had no effect.
    pub(super) async fn transact(
        &self,
        deadline: Instant,
        repeat: RetryPolicy,
        build: impl Fn(&EtcdStoreState) -> TxnRequest + Send,
    ) -> Result<EtcdResponse, EtcdFailure> {
        loop {
            self.check_open()?;
            let state = self.open_state(deadline).await?;
            let mut txn = build(&state);
            txn.compare
                .push(Compare::written_at(self.keys.state(), state.written));
            txn.failure.push(RangeRequest::of(self.keys.state()).into());
            let mut answer: TxnResponse = self.connection.call(method::TXN, txn, repeat, deadline).await?;
            if !answer.succeeded {
                let found = self.learn_from(answer.responses.pop())?;
                if found.written != state.written {
                    continue;
                }
            }
            return Ok(EtcdResponse {
                state,
                etcd: answer.revision(),
                held: answer.succeeded,
                responses: answer.responses,
            });
        }
    }

    /// The state now, and the revision of etcd at which it was read.
    pub(super) async fn read_state(&self, deadline: Instant) -> Result<(EtcdStoreState, i64), EtcdFailure> {
        self.check_open()?;
        let txn = TxnRequest {
            success: vec![RangeRequest::of(self.keys.state()).into()],
            ..TxnRequest::default()
        };
        let mut answer: TxnResponse = self
            .connection
            .call(method::TXN, txn, RetryPolicy::Harmless, deadline)
            .await?;
        let state = self.learn_from(answer.responses.pop())?;
        Ok((state, answer.revision()))
    }

    /// The current etcd revision.
    pub(super) async fn newest(&self) -> Result<(EtcdStoreState, i64), EtcdFailure> {
        let answer = self
            .transact(self.deadline(), RetryPolicy::Harmless, |_| TxnRequest::default())
            .await?;
        Ok((answer.state, answer.etcd))
    }

    /// Whether etcd can still be read at one of its revisions.
    pub(super) async fn remembers(&self, etcd: i64) -> Result<bool, EtcdFailure> {
        let txn = TxnRequest {
            success: vec![
                RangeRequest {
                    revision: etcd,
                    ..RangeRequest::of(self.keys.state())
                }
                .into(),
            ],
            ..TxnRequest::default()
        };
        let answer: Result<TxnResponse, EtcdFailure> = self
            .connection
            .call(method::TXN, txn, RetryPolicy::Harmless, self.deadline())
            .await;
        match answer {
            Ok(_) => Ok(true),
            Err(failure) if failure.rejection() == Some(EtcdRejection::Compacted) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// The newest state this process has seen. Another process may have changed it.
    pub(super) fn state(&self) -> EtcdStoreState {
        *self.lock()
    }

    /// Caches a state unless a newer one is known.
    pub(super) fn learn(&self, state: EtcdStoreState) {
        let mut known = self.lock();
        if state.written > known.written {
            *known = state;
        }
    }

    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        if *self.closed.borrow() {
            return Err(StoreError::Closed);
        }
        Ok(())
    }

    /// Returns when the store has been closed.
    pub(super) async fn until_closed(&self) {
        let mut closed = self.closed.subscribe();
        // The sender lives as long as this session.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    pub(super) fn store_error(&self, failure: EtcdFailure) -> StoreError {
        failure.into_store_error(&self.location)
    }

    async fn open_state(&self, deadline: Instant) -> Result<EtcdStoreState, EtcdFailure> {
        let mut state = self.state();
        if state.phase == EtcdStorePhase::Importing {
            // The importer may have finished since.
            (state, _) = self.read_state(deadline).await?;
        }
        match state.phase {
            EtcdStorePhase::Open => Ok(state),
            EtcdStorePhase::Importing => Err(StoreError::UnfinishedImport.into()),
        }
    }

    fn learn_from(&self, response: Option<ResponseOp>) -> Result<EtcdStoreState, StoreError> {
        let state = EtcdStoreState::read(response)?;
        self.learn(state);
        Ok(state)
    }

    fn lock(&self) -> MutexGuard<'_, EtcdStoreState> {
        self.state.lock()
    }
}

// --- EtcdResponse ---

impl EtcdResponse {
    /// The revision of the store after the transaction.
    pub(super) fn revision(&self) -> Revision {
        self.state.revision(self.etcd)
    }

    /// What the only range of the transaction found.
    pub(super) fn into_range(mut self) -> Result<RangeResponse, StoreError> {
        range_of(self.responses.pop())
    }
}

/// What a range of a transaction found. An answer without it must not be read as a store without entries.
pub(super) fn range_of(response: Option<ResponseOp>) -> Result<RangeResponse, StoreError> {
    response
        .and_then(ResponseOp::into_range)
        .ok_or_else(|| StoreError::Unavailable {
            backend: BACKEND,
            message: "etcd answered a read without what it found".to_owned(),
            source: None,
        })
}

#[cfg(test)]
mod tests {
    use super::{
        super::messages::{EmptyResponse, Response},
        *,
    };

    #[test]
    fn answer_without_its_range_is_not_empty() {
        let found = RangeResponse {
            more: true,
            ..RangeResponse::default()
        };
        let response = |response| Some(ResponseOp { response });
        let range = range_of(response(Some(Response::Range(found.clone())))).unwrap();
        assert_eq!(range, found);
        for other in [
            None,
            response(None),
            response(Some(Response::Put(EmptyResponse {}))),
        ] {
            let error = range_of(other).unwrap_err();
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        }
    }
}
