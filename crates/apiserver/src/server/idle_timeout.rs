//! Idle timeouts of connections.
//!
//! Promises: a connection without a request is closed after a while; one with incomplete headers, sooner; one whose client does
//! not read, too. One with a request in progress, in particular a watch, is kept. A connection closed by the server lingers:
//! data that the client still sends is received and discarded for a while, because closing a socket with unread bytes resets
//! it, and the client may lose the last response.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use crate::http::{BodyError, ResponseBody};

/// How long a connection may have nothing to do.
const IDLE: Duration = Duration::from_secs(90);
/// How long headers may take, from their first byte.
const HEADERS: Duration = Duration::from_secs(32);
/// How long a client may take nothing of what is sent to it.
const STALLED: Duration = Duration::from_mins(1);
/// How long a connection lingers that the server has ended, and how much it receives.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES: usize = 8 * 1024 * 1024;

/// The activity of a connection. Times are milliseconds since it was accepted plus one; 0 means never.
pub(super) struct IdleTimeout {
    began: Instant,
    protocol: HttpProtocol,
    requests: AtomicUsize,
    idle_since: AtomicU64,
    /// When the first byte of an incomplete request arrived.
    first_byte: AtomicU64,
    /// Since when nothing that is to be sent was taken.
    stalled_since: AtomicU64,
    /// Whether there was a request.
    has_served: AtomicBool,
    /// Whether the client has sent all that it ever will, or the connection is no longer HTTP.
    is_over: AtomicBool,
}

/// How the requests of a connection share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpProtocol {
    /// One after the other.
    Http1,
    /// Side by side.
    Http2,
}

/// A stream that reports its activity to an [`IdleTimeout`].
pub(super) struct IdleTimeoutStream<S> {
    stream: S,
    idle_timeout: Arc<IdleTimeout>,
    /// `Some` once the server has ended the connection.
    linger: Option<LingeringClose>,
}

/// The state of a lingering close.
struct LingeringClose {
    end: Pin<Box<Sleep>>,
    bytes: usize,
}

/// A response body. Its connection counts as active until it is dropped.
pub(super) struct ActiveBody {
    body: ResponseBody,
    idle_timeout: Arc<IdleTimeout>,
}

// --- IdleTimeout ---

impl IdleTimeout {
    pub(super) fn new(protocol: HttpProtocol) -> Arc<Self> {
        Arc::new(IdleTimeout {
            began: Instant::now(),
            protocol,
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(1),
            first_byte: AtomicU64::new(0),
            stalled_since: AtomicU64::new(0),
            has_served: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        })
    }

    /// How long until the connection is to be looked at again; `None`: it is over.
    pub(super) fn left(&self) -> Option<Duration> {
        let now = self.now();
        let since = |mark: &AtomicU64, patience: Duration| match mark.load(Relaxed) {
            0 => Some(patience),
            then => patience
                .checked_sub(Duration::from_millis(now.saturating_sub(then)))
                .filter(|left| !left.is_zero()),
        };
        let mut left = since(&self.stalled_since, STALLED)?;
        if self.requests.load(Relaxed) == 0 {
            left = left.min(since(&self.idle_since, IDLE)?);
            if self.protocol == HttpProtocol::Http1 {
                left = left.min(since(&self.first_byte, HEADERS)?);
            }
        }
        Some(left)
    }

    /// A request is here.
    pub(super) fn begin(&self) {
        self.requests.fetch_add(1, Relaxed);
        self.first_byte.store(0, Relaxed);
        self.has_served.store(true, Relaxed);
    }

    /// Whether requests share the connection, and there was one: then its end can be announced, and nothing is lost by it.
    pub(super) fn can_announce_end(&self) -> bool {
        self.protocol == HttpProtocol::Http2 && self.has_served.load(Relaxed)
    }

    /// The connection becomes something else than HTTP, which ends as it likes.
    pub(super) fn upgrade(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// The response is ready; the request lasts until its body is dropped.
    pub(super) fn answer(self: Arc<Self>, body: ResponseBody) -> ActiveBody {
        ActiveBody {
            body,
            idle_timeout: self,
        }
    }

    fn end(&self) {
        self.idle_since.store(self.now(), Relaxed);
        self.requests.fetch_sub(1, Relaxed);
    }

    fn read(&self) {
        if self.requests.load(Relaxed) == 0 && self.first_byte.load(Relaxed) == 0 {
            self.first_byte.store(self.now(), Relaxed);
        }
    }

    fn wrote<T>(&self, polled: &Poll<T>) {
        if polled.is_ready() {
            self.stalled_since.store(0, Relaxed);
        } else if self.stalled_since.load(Relaxed) == 0 {
            self.stalled_since.store(self.now(), Relaxed);
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }
}

// --- IdleTimeoutStream ---

impl<S> IdleTimeoutStream<S> {
    pub(super) fn new(stream: S, idle_timeout: &Arc<IdleTimeout>) -> Self {
        IdleTimeoutStream {
            stream,
            idle_timeout: Arc::clone(idle_timeout),
            linger: None,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.idle_timeout.read();
        } else if polled.is_ready() {
            self.idle_timeout.is_over.store(true, Relaxed);
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for IdleTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.idle_timeout.wrote(&polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.idle_timeout.wrote(&polled);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        if this.idle_timeout.is_over.load(Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let linger = this.linger.get_or_insert_with(|| LingeringClose {
            end: Box::pin(sleep(LINGER)),
            bytes: LINGER_BYTES,
        });
        let mut piece = [0; 8 * 1024];
        while linger.bytes > 0 && linger.end.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut piece);
            let read = ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
            linger.bytes = linger.bytes.saturating_sub(buffer.filled().len());
        }
        this.idle_timeout.is_over.store(true, Relaxed);
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.idle_timeout.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

// --- ActiveBody ---

impl ActiveBody {
    /// The connection becomes something else than HTTP.
    pub(super) fn upgrade(&self) {
        self.idle_timeout.upgrade();
    }

    /// The same, with what is to be sent.
    pub(super) fn with(mut self, body: ResponseBody) -> Self {
        self.body = body;
        self
    }
}

impl http_body::Body for ActiveBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ActiveBody {
    fn drop(&mut self) {
        self.idle_timeout.end();
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::advance,
    };

    use super::*;

    async fn after(seconds: u64) {
        advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connection_times_out() {
        let idle_timeout = IdleTimeout::new(HttpProtocol::Http1);
        after(89).await;
        assert!(idle_timeout.left().is_some());
        idle_timeout.begin();
        after(10_000).await;
        assert!(idle_timeout.left().is_some());
        drop(Arc::clone(&idle_timeout).answer(ResponseBody::Empty));
        after(89).await;
        assert!(idle_timeout.left().is_some());
        after(2).await;
        assert!(idle_timeout.left().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_headers_time_out() {
        let idle_timeout = IdleTimeout::new(HttpProtocol::Http1);
        after(10).await;
        idle_timeout.read();
        after(20).await;
        idle_timeout.read();
        assert!(idle_timeout.left().is_some());
        after(13).await;
        assert!(idle_timeout.left().is_none());
        // Where requests share a connection, bytes may be anything.
        let shared = IdleTimeout::new(HttpProtocol::Http2);
        shared.read();
        after(40).await;
        assert!(shared.left().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn closed_connection_lingers_until_client_finishes() {
        let (mut client, server) = tokio::io::duplex(16);
        let mut server = IdleTimeoutStream::new(server, &IdleTimeout::new(HttpProtocol::Http1));
        let sent = async {
            client.write_all(&[0; 10_000]).await.unwrap();
            let mut end = Vec::new();
            client.read_to_end(&mut end).await.unwrap();
            drop(client);
        };
        let (ended, ()) = tokio::join!(server.shutdown(), sent);
        ended.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn linger_is_bounded() {
        let (client, server) = tokio::io::duplex(16);
        let began = Instant::now();
        let mut server = IdleTimeoutStream::new(server, &IdleTimeout::new(HttpProtocol::Http1));
        server.shutdown().await.unwrap();
        assert_eq!(began.elapsed(), LINGER);
        drop(client);
        // What is no longer HTTP ends in its own way: each side by itself.
        let (mut client, server) = tokio::io::duplex(16);
        let idle_timeout = IdleTimeout::new(HttpProtocol::Http1);
        idle_timeout.upgrade();
        let mut server = IdleTimeoutStream::new(server, &idle_timeout);
        client.write_all(b"more").await.unwrap();
        server.shutdown().await.unwrap();
        let mut received = [0; 4];
        server.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"more");
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_client_times_out() {
        let idle_timeout = IdleTimeout::new(HttpProtocol::Http1);
        idle_timeout.begin();
        idle_timeout.wrote(&Poll::<()>::Pending);
        after(50).await;
        idle_timeout.wrote(&Poll::<()>::Pending);
        assert!(idle_timeout.left().is_some());
        after(11).await;
        assert!(idle_timeout.left().is_none());
        idle_timeout.wrote(&Poll::Ready(()));
        assert!(idle_timeout.left().is_some());
    }
}
