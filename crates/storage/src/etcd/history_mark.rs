//! The history mark of compactors, in a key that all processes share.
//!
//! upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/compact.go compact; its key carries the revision, and the
//! version of the key stands for the time. Here the time is in the value, so that a restart does not forget it.

use bytes::Bytes;

use super::{
    connection::RetryPolicy,
    failure::EtcdFailure,
    messages::{Compare, KeyValue, PutRequest, RangeRequest, TxnRequest},
    session::EtcdSession,
};
use crate::{HistoryMark, Revision, StoreError};

/// Returns the history mark.
pub(super) async fn read(session: &EtcdSession) -> Result<Option<HistoryMark>, StoreError> {
    Ok(find(session).await?.map(|(mark, _)| mark))
}

/// Compare-and-swap of the history mark.
pub(super) async fn replace(
    session: &EtcdSession,
    expected: Option<HistoryMark>,
    mark: HistoryMark,
) -> Result<bool, StoreError> {
    let found = find(session).await?;
    if found.map(|(mark, _)| mark) != expected {
        return Ok(false);
    }
    let written = found.map_or(0, |(_, written)| written);
    let key = session.keys.history_mark();
    let answer = session
        .transact(session.deadline(), RetryPolicy::Never, |_| TxnRequest {
            compare: vec![Compare::written_at(key.clone(), written)],
            success: vec![
                PutRequest {
                    key: key.clone(),
                    value: text(mark),
                    lease: 0,
                }
                .into(),
            ],
            failure: Vec::new(),
        })
        .await
        .map_err(|failure| session.store_error(failure))?;
    Ok(answer.held)
}

/// The mark and the revision of etcd at which it was written. An unreadable mark counts as one of the first
/// revision in 1970: compaction up to it has no effect, and then it is replaced.
async fn find(session: &EtcdSession) -> Result<Option<(HistoryMark, i64)>, StoreError> {
    let explain = |failure: EtcdFailure| session.store_error(failure);
    let answer = session
        .transact(session.deadline(), RetryPolicy::Harmless, |_| TxnRequest {
            success: vec![RangeRequest::of(session.keys.history_mark()).into()],
            ..TxnRequest::default()
        })
        .await
        .map_err(explain)?;
    let found = answer.into_range()?.kvs.pop();
    Ok(found.map(|kv| {
        let mark = parse(&kv).unwrap_or(HistoryMark {
            revision: Revision::FIRST,
            time_ms: 0,
        });
        (mark, kv.mod_revision)
    }))
}

fn text(mark: HistoryMark) -> Bytes {
    format!("revision={} time={}", mark.revision, mark.time_ms).into()
}

fn parse(kv: &KeyValue) -> Option<HistoryMark> {
    let text = std::str::from_utf8(&kv.value).ok()?;
    let (revision, time) = text.split_once(' ')?;
    Some(HistoryMark {
        revision: Revision::new(revision.strip_prefix("revision=")?.parse().ok()?),
        time_ms: time.strip_prefix("time=")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_a_round_trip() {
        let mark = HistoryMark {
            revision: Revision::new(12),
            time_ms: 34,
        };
        let kv = |value: Bytes| KeyValue {
            value: value.into(),
            ..KeyValue::default()
        };
        assert_eq!(parse(&kv(text(mark))), Some(mark));
        for damaged in ["", "revision=12", "revision=x time=1", "time=1 revision=2"] {
            assert_eq!(parse(&kv(damaged.into())), None, "{damaged}");
        }
    }
}
