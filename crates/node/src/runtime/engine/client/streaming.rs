//! An answer that goes on.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body, Incoming};
use tokio::task::JoinSet;

/// The bytes of an answer as they come. Dropping it closes the connection.
pub(in crate::runtime::engine) struct Streaming {
    body: Incoming,
    /// Moves the bytes; held only to be dropped.
    _driver: JoinSet<()>,
}

// --- Streaming ---

impl Streaming {
    pub(super) fn new(body: Incoming, driver: JoinSet<()>) -> Self {
        Self {
            body,
            _driver: driver,
        }
    }
}

impl Stream for Streaming {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            return Poll::Ready(match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    // Trailers say nothing to us.
                    Err(_) => continue,
                },
                Some(Err(error)) => Some(Err(io::Error::other(error))),
                None => None,
            });
        }
    }
}
