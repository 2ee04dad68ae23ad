//! Reads request bodies with a size limit and bounded memory, and discards unread ones so that the response arrives.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use k3_api::status::Status;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};

use super::inflight::LimitClass;
use crate::http::{RequestBody, RequestBodyError};

/// The longest body.
// upstream: staging/src/k8s.io/apiserver/pkg/server/config.go NewConfig; MaxRequestBodyBytes
const MAX_REQUEST_BODY_BYTES: usize = 3 * 1024 * 1024;
/// How much of a body that is not wanted is received, and for how long.
const MAX_DISCARDED: usize = 16 * 1024 * 1024;
const DISCARD: Duration = Duration::from_secs(1);
/// The unit that memory is counted in. A body that fits into one is not counted: the number of requests bounds those.
const UNIT: usize = 64 * 1024;
/// How many units all bodies take at once: 256 MiB. The last quarter is for users that are exempt from limits.
const MAX_UNITS: usize = 4096;
const ORDINARY_UNITS: usize = MAX_UNITS / 4 * 3;

/// The memory that bodies of requests take. A clone is the same memory.
#[derive(Clone)]
pub(crate) struct BodyMemory(Arc<Semaphore>);

/// The unread remainder of a body.
#[derive(Clone, Default)]
pub(super) struct UnreadBody(Arc<Mutex<Option<BodyRemainder>>>);

/// The rest of a body.
struct BodyRemainder {
    body: RequestBody,
    /// Whether some of it was asked for. Until then a client may wait for leave to send.
    was_read: bool,
}

/// A body that is returned when it is dropped before its end.
struct ReturningBody {
    /// `Some` until it is dropped.
    body: Option<RequestBody>,
    was_read: bool,
    unread: UnreadBody,
}

// --- BodyMemory ---

impl BodyMemory {
    pub(crate) fn new() -> Self {
        BodyMemory(Arc::new(Semaphore::new(MAX_UNITS)))
    }

    /// Reads a body, up to the limit. One that is compressed is not read: what it would become is not known before it is too late.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go limitedReadBody, limitedReadBodyWithRecordMetric
    pub(super) async fn read(
        &self,
        mut body: RequestBody,
        headers: &HeaderMap,
        class: LimitClass,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Status> {
        if body.is_end_stream() {
            return Ok((Bytes::new(), None));
        }
        let encoding = headers
            .get(header::CONTENT_ENCODING)
            .filter(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
        if encoding.is_some() {
            return Err(Status::unsupported_media_type(
                "the body of the request is compressed, which is not accepted; send it as it is, without a Content-Encoding",
            ));
        }
        if body.size_hint().lower() > MAX_REQUEST_BODY_BYTES as u64 {
            return Err(too_large());
        }
        let mut memory: Option<OwnedSemaphorePermit> = None;
        let mut frames: Vec<Bytes> = Vec::new();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| Status::bad_request(format!("the body could not be read: {error}")))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            length += data.len();
            if length > MAX_REQUEST_BODY_BYTES {
                return Err(too_large());
            }
            // As it arrives: a body that is announced and not sent takes no memory.
            let units = length / UNIT;
            let held = memory.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            if units > held {
                let more = self.take(units - held, class)?;
                match &mut memory {
                    Some(memory) => memory.merge(more),
                    None => memory = Some(more),
                }
            }
            frames.push(data);
        }
        Ok((join(frames, length), memory))
    }

    fn take(&self, units: usize, class: LimitClass) -> Result<OwnedSemaphorePermit, Status> {
        let reserved = match class {
            LimitClass::Exempt => 0,
            LimitClass::Ordinary => MAX_UNITS - ORDINARY_UNITS,
        };
        let is_available = self.0.available_permits() >= reserved + units;
        is_available
            .then(|| {
                let units = u32::try_from(units).expect("a body has some units at most");
                Arc::clone(&self.0).try_acquire_many_owned(units).ok()
            })
            .flatten()
            .ok_or_else(|| {
                let why = "the bodies of requests take too much memory, please try again later";
                Status::too_many_requests(why, 1)
            })
    }
}

// upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go NewRequestEntityTooLargeError
fn too_large() -> Status {
    Status::request_entity_too_large(format!("limit is {MAX_REQUEST_BODY_BYTES}"))
}

fn join(mut frames: Vec<Bytes>, length: usize) -> Bytes {
    if frames.len() < 2 {
        return frames.pop().unwrap_or_default();
    }
    let mut whole = BytesMut::with_capacity(length);
    for frame in frames {
        whole.extend_from_slice(&frame);
    }
    whole.freeze()
}

// --- UnreadBody ---

impl UnreadBody {
    /// Wraps a body so that its unread remainder is kept here when it is dropped early.
    pub(super) fn keep(&self, body: RequestBody) -> RequestBody {
        if body.is_end_stream() {
            return body;
        }
        let returned = ReturningBody {
            body: Some(body),
            was_read: false,
            unread: self.clone(),
        };
        returned.boxed_unsync()
    }

    /// Receives the rest of a body and forgets it, for a bounded time: a client that is still sending when its stream is reset or its
    /// connection closed may never read the answer. A client that waits for leave to send (`Expect: 100-continue`) sends nothing, and
    /// gets the answer instead of the leave.
    pub(super) async fn discard(self, headers: &HeaderMap) {
        let rest = self.0.lock().take();
        let waits_for_leave = |rest: &BodyRemainder| headers.contains_key(header::EXPECT) && !rest.was_read;
        let Some(rest) = rest.filter(|rest| !waits_for_leave(rest)) else {
            return;
        };
        // Whether that ended in time does not matter: the connection lingers before it is closed.
        let _ = time::timeout(DISCARD, discard(rest.body)).await;
    }
}

async fn discard(mut body: RequestBody) {
    let mut discarded = 0;
    while discarded < MAX_DISCARDED
        && let Some(Ok(frame)) = body.frame().await
    {
        discarded += frame.data_ref().map_or(0, Bytes::len);
    }
}

// --- ReturningBody ---

impl ReturningBody {
    fn body(&mut self) -> Pin<&mut RequestBody> {
        Pin::new(self.body.as_mut().expect("a body is there until it is dropped"))
    }
}

impl Body for ReturningBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        self.was_read = true;
        self.body().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for ReturningBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            let rest = BodyRemainder {
                body,
                was_read: self.was_read,
            };
            *self.unread.0.lock() = Some(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::{Full, StreamBody};

    use super::*;
    use crate::http::sent;

    fn whole(length: usize) -> RequestBody {
        sent(Full::new(Bytes::from(vec![b' '; length])))
    }

    fn chunks(count: usize) -> RequestBody {
        let chunk = || Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(vec![b'x'; UNIT])));
        sent(StreamBody::new(stream::iter((0..count).map(move |_| chunk()))))
    }

    #[tokio::test]
    async fn body_memory_is_bounded_and_released() {
        let memory = BodyMemory::new();
        let headers = HeaderMap::new();
        let mut held = Vec::new();
        // 48 units each.
        for _ in 0..ORDINARY_UNITS / 48 {
            held.push(
                memory
                    .read(whole(MAX_REQUEST_BODY_BYTES), &headers, LimitClass::Ordinary)
                    .await
                    .unwrap(),
            );
        }
        let refused = memory
            .read(chunks(48), &headers, LimitClass::Ordinary)
            .await
            .unwrap_err();
        assert_eq!(refused.code, 429);
        assert_eq!(refused.details.unwrap().retry_after_seconds, 1);
        let small = memory
            .read(whole(UNIT - 1), &headers, LimitClass::Ordinary)
            .await
            .unwrap();
        assert!(small.1.is_none(), "a small body is read in any case");
        assert!(
            memory
                .read(chunks(48), &headers, LimitClass::Exempt)
                .await
                .is_ok()
        );
        held.pop();
        assert!(
            memory
                .read(chunks(48), &headers, LimitClass::Ordinary)
                .await
                .is_ok()
        );
        drop(held);
        assert_eq!(memory.0.available_permits(), MAX_UNITS);
    }

    #[tokio::test]
    async fn too_large_body_is_413() {
        let memory = BodyMemory::new();
        for body in [
            whole(MAX_REQUEST_BODY_BYTES + 1),
            chunks(MAX_REQUEST_BODY_BYTES / UNIT + 1),
        ] {
            let refused = memory
                .read(body, &HeaderMap::new(), LimitClass::Ordinary)
                .await
                .unwrap_err();
            assert_eq!(refused.code, 413);
        }
    }

    #[tokio::test]
    async fn unread_body_is_kept_for_discard() {
        let unread = UnreadBody::default();
        let mut body = unread.keep(chunks(3));
        assert!(body.frame().await.is_some());
        drop(body);
        let rest = unread.0.lock().take().unwrap();
        assert!(rest.was_read);
        assert_eq!(rest.body.collect().await.unwrap().to_bytes().len(), 2 * UNIT);
    }
}
