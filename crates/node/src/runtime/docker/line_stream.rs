//! Splits a byte stream into lines.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;

/// Lines without their newline. An unterminated last line counts.
pub(super) struct LineStream<S> {
    stream: Option<S>,
    buffer: BytesMut,
}

// --- LineStream ---

impl<S> LineStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream: Some(stream),
            buffer: BytesMut::new(),
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
        let mut line = self.buffer.split_to(end + 1);
        line.truncate(end);
        Some(line.freeze())
    }
}

impl<S: Stream<Item = io::Result<Bytes>> + Unpin> Stream for LineStream<S> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(line) = self.take_line() {
                return Poll::Ready(Some(Ok(line)));
            }
            let Some(stream) = &mut self.stream else {
                let rest = self.buffer.split().freeze();
                return Poll::Ready((!rest.is_empty()).then_some(Ok(rest)));
            };
            match ready!(Pin::new(stream).poll_next(cx)) {
                Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.stream = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;

    #[tokio::test]
    async fn splits_lines_across_chunks() {
        let pieces = ["on", "e\ntwo\n", "\nlast"].map(|piece| Ok(Bytes::from(piece)));
        let lines: Vec<_> = LineStream::new(stream::iter(pieces))
            .map(Result::unwrap)
            .collect()
            .await;
        assert_eq!(lines, ["one", "two", "", "last"]);
    }
}
