//! Streamed response bodies.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body, Incoming};
use tokio::task::JoinSet;

/// The bytes of a response. Dropping it closes the connection.
pub(in crate::runtime::docker) struct ResponseStream {
    body: Incoming,
    /// Drives the connection; held only to be dropped.
    _driver: JoinSet<()>,
}

// --- ResponseStream ---

impl ResponseStream {
    pub(super) fn new(body: Incoming, driver: JoinSet<()>) -> Self {
        Self {
            body,
            _driver: driver,
        }
    }
}

impl Stream for ResponseStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            return Poll::Ready(match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    // Trailers are ignored.
                    Err(_) => continue,
                },
                Some(Err(error)) => Some(Err(io::Error::other(error))),
                None => None,
            });
        }
    }
}
