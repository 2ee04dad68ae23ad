//! The bodies of answers.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The body of an answer.
pub(crate) enum Body {
    /// Nothing.
    Empty,
    /// All of it, at once.
    Whole(Bytes),
    /// Pieces, as they come to be.
    Pieces(Box<dyn Pieces>),
}

/// A body that comes in pieces.
pub(crate) trait Pieces: Send {
    /// The next piece, or none at the end.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;

    /// Whether it is worth compressing: it is long, and nobody waits for its single pieces.
    fn is_long(&self) -> bool {
        false
    }
}

// --- Body ---

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Body::Empty => None,
            Body::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Body::Empty;
                Some(bytes)
            }
            Body::Pieces(pieces) => match pieces.poll_piece(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(piece) => piece,
            },
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Empty => true,
            Body::Whole(bytes) => bytes.is_empty(),
            Body::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Empty => SizeHint::with_exact(0),
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Pieces(_) => SizeHint::default(),
        }
    }
}

impl<B: Into<Bytes>> From<B> for Body {
    fn from(bytes: B) -> Self {
        Body::Whole(bytes.into())
    }
}
