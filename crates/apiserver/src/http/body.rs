//! Request and response bodies.

use std::{
    error::Error,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use k3_task::panic_message;

/// The body of a request. There is one type of it, so that what answers requests is compiled once, not for each way in.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, RequestBodyError>;

/// Why the rest of a request body was not received.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct RequestBodyError(Box<dyn Error + Send + Sync>);

/// The body of an answer.
pub(crate) enum ResponseBody {
    /// Nothing.
    Empty,
    /// All of it, at once.
    Whole(Bytes),
    /// A stream of chunks.
    Stream(Box<dyn BodyStream>),
}

/// A body that is streamed in chunks.
pub(crate) trait BodyStream: Send {
    /// The next piece, or none at the end.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;

    /// Whether it is worth compressing: it is long, and no client waits for single chunks.
    fn is_long(&self) -> bool {
        false
    }

    /// Whether what there was is not all there should have been.
    fn is_broken(&self) -> bool {
        false
    }

    /// It panicked when it was asked for a piece. There will be no more.
    fn broken(&mut self, why: &str) {
        let _ = why;
    }
}

/// A body that could not be sent to its end: the client must not take what it got for all there is.
#[derive(Debug, thiserror::Error)]
#[error("the response was aborted")]
pub struct BodyError;

/// Boxes any body as a request body.
pub(crate) fn sent<B>(body: B) -> RequestBody
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    body.map_frame(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))
        .map_err(|error| RequestBodyError(error.into()))
        .boxed_unsync()
}

// --- ResponseBody ---

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let piece = match &mut *self {
            ResponseBody::Empty => None,
            ResponseBody::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = ResponseBody::Empty;
                Some(bytes)
            }
            ResponseBody::Stream(pieces) => {
                match catch_unwind(AssertUnwindSafe(|| pieces.poll_piece(context))) {
                    Ok(Poll::Pending) => return Poll::Pending,
                    Ok(Poll::Ready(None)) if pieces.is_broken() => {
                        *self = ResponseBody::Empty;
                        return Poll::Ready(Some(Err(BodyError)));
                    }
                    Ok(Poll::Ready(piece)) => piece,
                    Err(panic) => {
                        let why = panic_message(&*panic);
                        tracing::error!(why, "response body panicked");
                        pieces.broken(why);
                        *self = ResponseBody::Empty;
                        return Poll::Ready(Some(Err(BodyError)));
                    }
                }
            }
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Empty => true,
            ResponseBody::Whole(bytes) => bytes.is_empty(),
            ResponseBody::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Empty => SizeHint::with_exact(0),
            ResponseBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            ResponseBody::Stream(_) => SizeHint::default(),
        }
    }
}

impl<B: Into<Bytes>> From<B> for ResponseBody {
    fn from(bytes: B) -> Self {
        ResponseBody::Whole(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use parking_lot::Mutex;

    use super::*;

    struct PanickingBody(u8, Arc<Mutex<String>>);

    impl BodyStream for PanickingBody {
        fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
            assert!(self.0 > 0, "no more");
            self.0 -= 1;
            Poll::Ready(Some(Bytes::from_static(b"piece")))
        }

        fn broken(&mut self, why: &str) {
            why.clone_into(&mut self.1.lock());
        }
    }

    #[tokio::test]
    async fn panic_aborts_only_its_response() {
        let reported = Arc::default();
        let mut body = ResponseBody::Stream(Box::new(PanickingBody(1, Arc::clone(&reported))));
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
        assert_eq!(*reported.lock(), "no more");
    }
}
