//! A stream that an async function fills.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{Stream, StreamExt, future::BoxFuture, stream::BoxStream};
use tokio::sync::mpsc;

/// What a producer sends, as a stream. The producer runs when the stream is polled, and ends with it.
struct Flow<T> {
    producer: Option<BoxFuture<'static, ()>>,
    sent: mpsc::Receiver<T>,
}

/// The sending side. That nobody listens any more ends the producer anyway, since it is dropped with the stream.
pub(super) struct Sender<T>(mpsc::Sender<T>);

/// Makes a stream of what a producer sends. It may be so many items ahead.
pub(super) fn flow<T, F>(ahead: usize, producer: impl FnOnce(Sender<T>) -> F) -> BoxStream<'static, T>
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, sent) = mpsc::channel(ahead);
    let flow = Flow {
        producer: Some(Box::pin(producer(Sender(sender)))),
        sent,
    };
    flow.boxed()
}

impl<T> Sender<T> {
    pub(super) async fn send(&self, item: T) {
        // The receiver is dropped together with whoever calls this.
        let _ = self.0.send(item).await;
    }
}

impl<T> Stream for Flow<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(producer) = &mut self.producer
            && producer.as_mut().poll(context).is_ready()
        {
            self.producer = None;
        }
        self.sent.poll_recv(context)
    }
}
