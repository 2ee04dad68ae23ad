//! A stream whose items an async function sends.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{Stream, StreamExt, future::BoxFuture, stream::BoxStream};
use tokio::sync::mpsc;

/// The items that a producer sends. The producer is a plain future inside the stream, not a task: it runs while the stream is
/// polled and is dropped with it, so cancelling a list or watch is dropping its stream.
struct ProducerStream<T> {
    producer: Option<BoxFuture<'static, ()>>,
    items: mpsc::Receiver<T>,
}

/// The sending side of a [`ProducerStream`].
pub(super) struct EventSender<T>(mpsc::Sender<T>);

/// A stream of what `producer` sends. The producer waits when `buffer` items are not yet read.
pub(super) fn stream_from_producer<T, F>(
    buffer: usize,
    producer: impl FnOnce(EventSender<T>) -> F,
) -> BoxStream<'static, T>
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, items) = mpsc::channel(buffer);
    let stream = ProducerStream {
        producer: Some(Box::pin(producer(EventSender(sender)))),
        items,
    };
    stream.boxed()
}

impl<T> EventSender<T> {
    pub(super) async fn send(&self, item: T) {
        // Sending cannot fail: the receiver is dropped only together with the producer that calls this.
        let _ = self.0.send(item).await;
    }
}

impl<T> Stream for ProducerStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(producer) = &mut self.producer
            && producer.as_mut().poll(context).is_ready()
        {
            self.producer = None;
        }
        self.items.poll_recv(context)
    }
}
