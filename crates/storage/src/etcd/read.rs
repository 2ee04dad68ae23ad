//! Reads, of the newest state or of an older one.

use tokio::time::timeout_at;

use super::{
    connection::RetryPolicy,
    failure::{EtcdFailure, EtcdRejection},
    keyspace::{KeySpan, Role},
    lease,
    messages::{KeyValue, RangeRequest, RangeResponse, TxnRequest},
    session::{EtcdResponse, EtcdSession},
    state::EtcdStoreState,
    watcher::{EtcdWatchError, EtcdWatcher},
};
use crate::{Entry, Key, Page, Prefix, Range, ReadError, Revision, StoreError};

/// Number of entries of the first request, before their size is known.
const FIRST_CHUNK: usize = 200;
/// Approximate size of a response.
const CHUNK_BYTES: usize = 4 << 20;
const MAX_CHUNK: usize = 10_000;

/// The entry under a key.
pub(super) async fn get(session: &EtcdSession, key: &Key) -> Result<Option<Entry>, ReadError> {
    let range = RangeRequest::of(session.keys.entry(key));
    let answer = session
        .transact(session.deadline(), RetryPolicy::Harmless, |_| {
            reading(range.clone())
        })
        .await
        .map_err(|failure| session.store_error(failure))?;
    let state = answer.state;
    let found = answer.into_range()?.kvs.pop();
    Ok(found.map(|kv| entry(session, &state, kv)).transpose()?)
}

/// Lists a page in chunks of bounded size, all at the revision of the first.
pub(super) async fn range(session: &EtcdSession, prefix: &Prefix, page: Page) -> Result<Range, ReadError> {
    match in_chunks(session, prefix, &page).await {
        // Another process compacted the revision of the first chunk before the last was read. A list at the newest revision must
        // not fail because of that: read all of it in one request.
        Err(ReadError::Compacted { .. }) if page.at.is_none() => {
            let span = session.keys.entries(prefix, page.after.as_ref());
            let (state, revision, found) = chunk(session, span, None, page.limit).await?;
            let more = found.more;
            let entries = found.kvs.into_iter().map(|kv| entry(session, &state, kv));
            Ok(Range {
                entries: entries.collect::<Result<_, _>>()?,
                revision,
                more,
            })
        }
        outcome => outcome,
    }
}

async fn in_chunks(session: &EtcdSession, prefix: &Prefix, page: &Page) -> Result<Range, ReadError> {
    let mut range = Range {
        entries: Vec::new(),
        revision: Revision::ZERO,
        more: true,
    };
    let mut at = page.at;
    let mut after = page.after.clone();
    let mut size = FIRST_CHUNK;
    loop {
        let limit = match page.limit {
            0 => size,
            limit => size.min(limit - range.entries.len()),
        };
        let span = session.keys.entries(prefix, after.as_ref());
        let (state, revision, found) = chunk(session, span, at, limit).await?;
        range.revision = revision;
        range.more = found.more;
        size = next_size(&found);
        for kv in found.kvs {
            range.entries.push(entry(session, &state, kv)?);
        }
        if !range.more || range.entries.len() == page.limit {
            return Ok(range);
        }
        at = Some(revision);
        after = range.entries.last().map(|entry| entry.key.clone());
    }
}

/// Checks that revision `at` is neither in the future nor compacted.
pub(super) async fn prove(session: &EtcdSession, at: Revision) -> Result<EtcdStoreState, ReadError> {
    let span = KeySpan::single(session.keys.state());
    let (state, _, _) = chunk(session, span, Some(at), 1).await?;
    Ok(state)
}

/// At most `limit` entries, or all of them when it is zero.
async fn chunk(
    session: &EtcdSession,
    span: KeySpan,
    at: Option<Revision>,
    limit: usize,
) -> Result<(EtcdStoreState, Revision, RangeResponse), ReadError> {
    let Some(at) = at else {
        let answer = ask(session, span, limit, None)
            .await
            .map_err(|failure| session.store_error(failure))?;
        return Ok((answer.state, answer.revision(), answer.into_range()?));
    };
    match ask(session, span, limit, Some(at)).await {
        // From before the offset, and so read as the newest, or from an import's half-filled store.
        Ok(answer) if at < answer.state.floor() => Err(compacted(session, &answer.state, at).await?),
        Ok(answer) => Ok((answer.state, at, answer.into_range()?)),
        Err(failure) => match failure.rejection() {
            Some(EtcdRejection::Compacted) => Err(compacted(session, &session.state(), at).await?),
            Some(EtcdRejection::Future) => Err(future(session, at).await?),
            _ => Err(session.store_error(failure).into()),
        },
    }
}

async fn ask(
    session: &EtcdSession,
    span: KeySpan,
    limit: usize,
    at: Option<Revision>,
) -> Result<EtcdResponse, EtcdFailure> {
    session
        .transact(session.deadline(), RetryPolicy::Harmless, |state| {
            reading(RangeRequest {
                key: span.start.clone(),
                range_end: span.end.clone(),
                limit: i64::try_from(limit).unwrap_or(i64::MAX),
                revision: at.map_or(0, |at| state.etcd(at)),
                keys_only: false,
            })
        })
        .await
}

fn reading(range: RangeRequest) -> TxnRequest {
    TxnRequest {
        success: vec![range.into()],
        ..TxnRequest::default()
    }
}

/// The number of entries that fill a chunk, estimated from the previous chunk.
fn next_size(found: &RangeResponse) -> usize {
    let bytes: usize = found.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
    let each = (bytes / found.kvs.len().max(1)).max(1);
    (CHUNK_BYTES / each).clamp(1, MAX_CHUNK)
}

/// The error with the oldest readable revision. etcd does not report it in its rejection, but to a watch that starts at
/// revision 1.
async fn compacted(
    session: &EtcdSession,
    state: &EtcdStoreState,
    requested: Revision,
) -> Result<ReadError, StoreError> {
    let floor = state.floor();
    let looked = async {
        let mut watcher = EtcdWatcher::open(session, KeySpan::single(session.keys.state()), 0).await?;
        watcher.next(session).await
    };
    let oldest = match timeout_at(session.deadline(), looked).await {
        Ok(Err(EtcdWatchError::Compacted(etcd))) => state.revision(etcd).max(floor),
        Ok(Err(EtcdWatchError::Lost(failure))) => return Err(session.store_error(failure)),
        Ok(Ok(_)) | Err(_) => floor,
    };
    Ok(ReadError::Compacted { requested, oldest })
}

async fn future(session: &EtcdSession, requested: Revision) -> Result<ReadError, StoreError> {
    let (state, etcd) = session
        .newest()
        .await
        .map_err(|failure| session.store_error(failure))?;
    Ok(ReadError::Future {
        requested,
        current: state.revision(etcd),
    })
}

/// Converts an etcd key-value to an entry.
pub(super) fn entry(
    session: &EtcdSession,
    state: &EtcdStoreState,
    kv: KeyValue,
) -> Result<Entry, StoreError> {
    let key = match session.keys.role(&kv.key) {
        Role::Entry(name) => Key::try_new(name).ok(),
        Role::EtcdStoreState | Role::Other => None,
    };
    let Some(key) = key else {
        let name = String::from_utf8_lossy(&kv.key);
        return Err(StoreError::Corrupt(format!(
            "{name:?} in etcd was not written by this program"
        )));
    };
    Ok(Entry {
        key,
        revision: state.revision(kv.mod_revision),
        expiry: lease::expiry(kv.lease),
        value: kv.value.into(),
    })
}
