//! Charges usage deltas to quotas in batches.
//!
//! The first request of a namespace serves all that queued up meanwhile, so a hundred concurrent creates cost a few writes of
//! their quotas and do not conflict. A concurrent write by another server is detected by the store; the batch is then retried.

use std::{collections::HashMap, sync::Arc};

use k3_api::status::Status;
use k3_storage::{CommitError, Revision};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{
    quota_state::QuotaState,
    usage_delta::{QuotaRejection, UsageDelta},
};
use crate::{
    admission::AdmissionAttributes,
    cache::{CachedObject, WatchCaches},
    registry::{Resource, StoreWriter, not_committed},
};

/// Attempts when the quota is written concurrently.
const TRIES: usize = 20;

/// The queues of all namespaces with waiting requests.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go quotaEvaluator, Evaluate, checkAttributes
#[derive(Default)]
pub(super) struct QuotaBatchEvaluator(Mutex<HashMap<String, Arc<NamespaceQueue>>>);

/// Those who wait for the quotas of a namespace.
#[derive(Default)]
struct NamespaceQueue {
    waiting: Mutex<Vec<AdmissionWaiter>>,
    /// Single flight: held by the request that serves the queue, while the others wait for their answers. If it panics, those whose
    /// demands it took are queued again.
    turn: tokio::sync::Mutex<()>,
}

/// A waiting request.
struct AdmissionWaiter {
    demand: Arc<UsageDelta>,
    answer: oneshot::Sender<Result<(), ChargeError>>,
}

/// Why something was not charged.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChargeError {
    /// The quotas do not allow it.
    #[error(transparent)]
    Forbidden(QuotaRejection),
    /// The quotas could not be written.
    #[error(transparent)]
    Failed(Status),
}

// --- QuotaBatchEvaluator ---

impl QuotaBatchEvaluator {
    /// Charges a demand, with all others that wait for the same namespace.
    pub(super) async fn charge(
        &self,
        attributes: &AdmissionAttributes<'_>,
        demand: UsageDelta,
        quotas: &Resource,
        caches: &WatchCaches,
        writer: &StoreWriter,
    ) -> Result<(), ChargeError> {
        let namespace = attributes.namespace;
        let line = self.line(namespace);
        let demand = Arc::new(demand);
        let answer = loop {
            let (answer, mut answered) = oneshot::channel();
            line.lock().push(AdmissionWaiter {
                demand: Arc::clone(&demand),
                answer,
            });
            tokio::select! {
                biased;
                // The request that served the queue may have been cancelled; then this one is queued again.
                answer = &mut answered => if let Ok(answer) = answer { break answer; },
                turn = line.turn.lock() => {
                    let batch = std::mem::take(&mut *line.lock());
                    serve(batch, attributes, quotas, caches, writer).await;
                    drop(turn);
                    if let Ok(answer) = answered.await {
                        break answer;
                    }
                }
            }
        };
        drop(line);
        self.leave(namespace);
        answer
    }

    fn line(&self, namespace: &str) -> Arc<NamespaceQueue> {
        let mut lines = self.0.lock();
        match lines.get(namespace) {
            Some(line) => Arc::clone(line),
            None => Arc::clone(lines.entry(namespace.to_owned()).or_default()),
        }
    }

    /// Removes an empty queue.
    fn leave(&self, namespace: &str) {
        let mut lines = self.0.lock();
        if lines
            .get(namespace)
            .is_some_and(|line| Arc::strong_count(line) == 1)
        {
            lines.remove(namespace);
        }
    }
}

// --- NamespaceQueue ---

impl NamespaceQueue {
    fn lock(&self) -> parking_lot::MutexGuard<'_, Vec<AdmissionWaiter>> {
        self.waiting.lock()
    }
}

/// Charges demands, and answers those who wait for it.
async fn serve(
    mut batch: Vec<AdmissionWaiter>,
    attributes: &AdmissionAttributes<'_>,
    quotas: &Resource,
    caches: &WatchCaches,
    writer: &StoreWriter,
) {
    let snapshot = quotas.cache.snapshot(Revision::ZERO);
    let mut accounts: Vec<_> = snapshot
        .under(&quotas.under(attributes.namespace), None)
        .map(|object| QuotaState::read(Arc::clone(object)))
        .collect();
    for _ in 0..TRIES {
        batch = charge(batch, &mut accounts);
        if batch.is_empty() {
            return;
        }
        accounts.retain(|account| account.is_charged);
        let mut lost = Vec::new();
        for account in &accounts {
            match writer.commit(account.write(quotas, attributes.ctx.now)).await {
                Ok(revision) => caches.wait_until_applied(revision).await,
                Err(CommitError::Conflict(Some(entry))) => {
                    let object = CachedObject::new(entry.key, entry.value, entry.revision);
                    lost.push(QuotaState::read(Arc::new(object)));
                }
                // A quota that is gone allows everything.
                Err(CommitError::Conflict(None)) => {}
                Err(error) => {
                    let status = not_committed(error);
                    return answer(batch, || Err(ChargeError::Failed(status.clone())));
                }
            }
        }
        if lost.is_empty() {
            return answer(batch, || Ok(()));
        }
        // What was written is charged; the others are asked again.
        accounts = lost;
    }
    let name = accounts.first().map_or("", |account| account.name.as_str());
    let why = "the object has been modified; please apply your changes to the latest version and try again";
    answer(batch, || {
        Err(ChargeError::Failed(Status::conflict(quotas.grouped(), name, why)))
    });
}

/// Charges what the accounts allow. Gives back those who must wait until that is written.
fn charge(batch: Vec<AdmissionWaiter>, accounts: &mut [QuotaState]) -> Vec<AdmissionWaiter> {
    let mut charged = Vec::new();
    for waiting in batch {
        // Who does not wait any more makes nothing.
        if waiting.answer.is_closed() {
            continue;
        }
        let said = match waiting.demand.charge(accounts) {
            Ok(true) => {
                charged.push(waiting);
                continue;
            }
            Ok(false) => Ok(()),
            Err(why) => Err(ChargeError::Forbidden(why)),
        };
        // Whoever gave up in this moment does not hear it.
        let _ = waiting.answer.send(said);
    }
    charged
}

fn answer(batch: Vec<AdmissionWaiter>, said: impl Fn() -> Result<(), ChargeError>) {
    for waiting in batch {
        // As above.
        let _ = waiting.answer.send(said());
    }
}
