//! Writes.

use k3_task::Clock;
use tokio::time::Instant;

use super::{
    connection::RetryPolicy,
    failure::{EtcdFailure, EtcdRejection},
    lease::{self, LeaseGrants},
    messages::{Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest},
    read,
    session::EtcdSession,
};
use crate::{CommitError, Expiry, Operation, Precondition, Revision, Write};

/// Applies a write.
pub(super) async fn commit(
    session: &EtcdSession,
    leases: &LeaseGrants,
    write: Write,
) -> Result<Revision, CommitError> {
    write.check()?;
    session.check_open()?;
    let deadline = session.deadline();
    let lease = grant(session, leases, &write, deadline).await?;
    let outcome = apply(session, &write, lease, deadline).await;
    let unused = matches!(&outcome, Err(error) if !matches!(error, CommitError::Uncertain(_)));
    if unused && lease != 0 {
        lease::revoke(&session.connection, lease, deadline).await;
    }
    outcome
}

/// Grants the lease of a write; zero if it needs none.
async fn grant(
    session: &EtcdSession,
    leases: &LeaseGrants,
    write: &Write,
    deadline: Instant,
) -> Result<i64, CommitError> {
    let Operation::Put { ttl: Some(ttl), .. } = write.operation else {
        return Ok(0);
    };
    let now = Clock::system().system_time();
    leases
        .grant(&session.connection, Expiry::after(now, ttl), now, deadline)
        .await
        // Even if the lease was granted, the write was not applied.
        .map_err(|failure| session.store_error(failure).into())
}

async fn apply(
    session: &EtcdSession,
    write: &Write,
    lease: i64,
    deadline: Instant,
) -> Result<Revision, CommitError> {
    let key = session.keys.entry(&write.key);
    let answer = session
        .transact(deadline, RetryPolicy::Never, |state| {
            let expected = match write.precondition {
                Precondition::Absent => 0,
                Precondition::At(revision) => state.etcd(revision),
            };
            let operation: RequestOp = match &write.operation {
                Operation::Put { value, .. } => PutRequest {
                    key: key.clone(),
                    value: value.clone(),
                    lease,
                }
                .into(),
                Operation::Delete => DeleteRangeRequest {
                    key: key.clone(),
                    ..DeleteRangeRequest::default()
                }
                .into(),
            };
            TxnRequest {
                compare: vec![Compare::written_at(key.clone(), expected)],
                success: vec![operation],
                failure: vec![RangeRequest::of(key.clone()).into()],
            }
        })
        .await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) if failure.rejection() == Some(EtcdRejection::Full) => {
            return Err(filled(session, write, failure).await);
        }
        Err(failure) => return Err(explain(session, write, failure)),
    };
    if answer.held {
        return Ok(answer.revision());
    }
    let state = answer.state;
    let current = answer
        .into_range()?
        .kvs
        .pop()
        .map(|kv| read::entry(session, &state, kv))
        .transpose()?;
    Err(CommitError::Conflict(current))
}

/// Determines the outcome of a write that etcd rejected for lack of space. etcd applies the write that exceeds the quota and
/// rejects it nevertheless; later writes are rejected without effect.
async fn filled(session: &EtcdSession, write: &Write, failure: EtcdFailure) -> CommitError {
    let full = session.store_error(failure);
    let expected = match write.precondition {
        Precondition::Absent => None,
        Precondition::At(revision) => Some(revision),
    };
    match read::get(session, &write.key).await {
        Ok(found) if found.as_ref().map(|entry| entry.revision) == expected => full.into(),
        // The value may come from this write or an identical one of another process.
        Ok(_) | Err(_) => CommitError::Uncertain(full),
    }
}

fn explain(session: &EtcdSession, write: &Write, failure: EtcdFailure) -> CommitError {
    if failure.rejection() == Some(EtcdRejection::TooLarge)
        && let Operation::Put { value, .. } = &write.operation
    {
        return CommitError::TooLarge {
            key: write.key.clone(),
            bytes: value.len(),
        };
    }
    match failure {
        EtcdFailure::Unknown(_) => CommitError::Uncertain(session.store_error(failure)),
        _ => session.store_error(failure).into(),
    }
}
