//! [`ListWatch`] over the HTTP API of a cluster.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream::BoxStream};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Collected, Limited};
use kube::{
    api::{ListParams, WatchParams},
    client::Body,
    core::Request,
};
use tokio::time::{sleep, timeout};

use super::{
    decode::{DecodedEvent, Decoder, ErasedObject, downcast_event, parse_status, status_error},
    decode_pool::DecodePool,
    identity::InformerIdentity,
    list_items::{ListEnvelope, ListItemSplitter},
    list_watch::{ListWatch, ListWatchError, ListWatchStart, WatchEvent},
    options::InformerOptions,
    producer_stream::{EventSender, stream_from_producer},
    watch_lines::WatchLineSplitter,
};
use crate::{causes::with_causes, object::Object};

/// Lists and watches a kind in a scope.
pub(super) struct ApiListWatch {
    list_watch_client: Arc<ListWatchClient>,
}

struct ListWatchClient {
    client: kube::Client,
    request: Request,
    identity: InformerIdentity,
    decoder: Decoder,
    page_size: Option<u32>,
    watch_timeout: Duration,
    /// Whether the next list is a streaming list (`sendInitialEvents`). It is false while one runs, so that a streaming list
    /// that did not complete is followed by a paged one: some servers accept the parameter and never send the end bookmark.
    streaming: AtomicBool,
}

type WatchEventSender = EventSender<Result<WatchEvent<ErasedObject>, ListWatchError>>;

/// What a watch sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchStart {
    /// All objects, then changes (KEP-3157).
    InitialEvents,
    /// Changes after a version.
    Changes,
}

/// The version of a list that may be of any age.
const ANY_VERSION: &str = "0";
/// The version of a list that is not older than the request.
const NEWEST_VERSION: &str = "";
/// How many events may be buffered ahead of the store.
const EVENT_BUFFER: usize = 4;
/// Decoding starts as soon as this many bytes of complete items have arrived.
const DECODE_BATCH_BYTES: usize = 256 * 1024;
/// How much of the body of an error response is read.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
/// The server ends a watch at `timeoutSeconds`. A connection that stays open this much longer is considered dead.
const WATCH_TIMEOUT_MARGIN: Duration = Duration::from_secs(5);

// --- ApiListWatch ---

impl ApiListWatch {
    pub(super) fn new<T>(
        client: kube::Client,
        identity: InformerIdentity,
        decoder: Decoder,
        options: &InformerOptions<T>,
    ) -> Self {
        ApiListWatch {
            list_watch_client: Arc::new(ListWatchClient {
                client,
                request: Request::new(identity.path.clone()),
                identity,
                decoder,
                page_size: options.page_size,
                watch_timeout: options.watch_timeout,
                streaming: AtomicBool::new(options.streaming),
            }),
        }
    }
}

impl<T: Object> ListWatch<T> for ApiListWatch {
    fn open(&mut self, start: ListWatchStart) -> BoxStream<'static, Result<WatchEvent<T>, ListWatchError>> {
        let events = Arc::clone(&self.list_watch_client).open(start);
        events.map(|event| event.map(downcast_event)).boxed()
    }
}

// --- ListWatchClient ---

impl ListWatchClient {
    fn open(
        self: Arc<Self>,
        start: ListWatchStart,
    ) -> BoxStream<'static, Result<WatchEvent<ErasedObject>, ListWatchError>> {
        stream_from_producer(EVENT_BUFFER, |out| async move {
            let result = match start {
                ListWatchStart::List { consistent: true } => self.list(NEWEST_VERSION, &out).await,
                ListWatchStart::List { consistent: false } => self.list(ANY_VERSION, &out).await,
                ListWatchStart::Version(version) => self.watch(&version, &out).await,
            };
            if let Err(error) = result {
                out.send(Err(error)).await;
            }
        })
    }

    // upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go list
    async fn list(&self, version: &str, out: &WatchEventSender) -> Result<(), ListWatchError> {
        out.send(Ok(WatchEvent::ListStarted)).await;
        if self.streaming.swap(false, Ordering::Relaxed) {
            match self.streaming_list(version, out).await {
                // The server does not support streaming lists: fall back to a paged list.
                Err(ListWatchError::Rejected {
                    code: 400 | 403 | 405 | 422,
                    ..
                }) => {}
                result => return result,
            }
        }
        self.paged_list(version, out).await
    }

    /// Lists page by page. A server may ignore `limit` and return everything in one response, as the watch cache does.
    async fn paged_list(&self, version: &str, out: &WatchEventSender) -> Result<(), ListWatchError> {
        let mut params = ListParams {
            label_selector: self.identity.scope.labels.clone(),
            field_selector: self.identity.scope.fields.clone(),
            limit: self.page_size,
            resource_version: (version != NEWEST_VERSION).then(|| version.to_owned()),
            ..ListParams::default()
        };
        loop {
            let request = self.request.list(&params);
            let response = self
                .send(request, self.identity.wire_format.accept_list())
                .await?;
            let metadata = self.read_items(response, out).await?;
            let metadata = metadata.metadata;
            params.continue_token = metadata.continue_token.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = metadata.resource_version.unwrap_or_default();
                out.send(Ok(WatchEvent::ListComplete { version })).await;
                return Ok(());
            }
        }
    }

    /// Reads one page while it arrives. Complete items are decoded on other threads while the rest is still on the wire.
    async fn read_items(
        &self,
        response: Response<Body>,
        out: &WatchEventSender,
    ) -> Result<ListEnvelope, ListWatchError> {
        let mut body = pin!(response.into_body());
        let mut items = ListItemSplitter::default();
        let mut pool = DecodePool::new();
        let mut is_open = true;
        while is_open || !pool.is_empty() {
            tokio::select! {
                biased;
                decoded = pool.next(), if !pool.is_empty() => {
                    for event in decoded.unwrap_or_else(|| Ok(Ok(Vec::new())))?? {
                        out.send(Ok(event)).await;
                    }
                }
                frame = body.frame(), if is_open && pool.has_capacity() => {
                    match frame {
                        Some(frame) => {
                            if let Ok(bytes) = frame.map_err(|error| connection_error(&error))?.into_data() {
                                items.push(&bytes);
                            }
                        }
                        None => is_open = false,
                    }
                    if items.complete().size() >= DECODE_BATCH_BYTES || (!is_open && items.complete().len() > 0) {
                        let batch = items.take();
                        let decoder = self.decoder.clone();
                        pool.add(batch.size(), move || decoder.decode_items(&batch));
                    }
                }
            }
        }
        items.envelope().map_err(|error| {
            ListWatchError::Failed(format!("the list response is incomplete or not a list: {error}"))
        })
    }

    /// Lists by watching with `sendInitialEvents` (KEP-3157), then stays on the same response as the watch.
    // upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go watchList
    async fn streaming_list(&self, version: &str, out: &WatchEventSender) -> Result<(), ListWatchError> {
        let response = self.send_watch(version, WatchStart::InitialEvents).await?;
        self.read_watch(response, WatchStart::InitialEvents, out).await
    }

    async fn watch(&self, version: &str, out: &WatchEventSender) -> Result<(), ListWatchError> {
        let response = self.send_watch(version, WatchStart::Changes).await?;
        let version = version.to_owned();
        out.send(Ok(WatchEvent::Bookmark { version })).await;
        self.read_watch(response, WatchStart::Changes, out).await
    }

    async fn send_watch(&self, version: &str, start: WatchStart) -> Result<Response<Body>, ListWatchError> {
        let params = WatchParams {
            label_selector: self.identity.scope.labels.clone(),
            field_selector: self.identity.scope.fields.clone(),
            timeout: u32::try_from(self.watch_timeout.as_secs()).ok(),
            bookmarks: true,
            send_initial_events: start == WatchStart::InitialEvents,
        };
        let request = self.request.watch(&params, version);
        let response = self.send(request, self.identity.wire_format.accept_watch());
        // On a dead connection not even the response headers arrive.
        let limit = self.watch_timeout + WATCH_TIMEOUT_MARGIN;
        timeout(limit, response)
            .await
            .map_err(|_| watch_timeout_error())?
    }

    /// Reads watch events while they arrive. The events of an initial list are decoded on other threads; later ones are few,
    /// and latency matters more.
    // upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go handleAnyWatch
    async fn read_watch(
        &self,
        response: Response<Body>,
        start: WatchStart,
        out: &WatchEventSender,
    ) -> Result<(), ListWatchError> {
        let mut is_list = start == WatchStart::InitialEvents;
        // One timer for the whole watch: it is not set again for each event.
        let mut deadline = pin!(sleep(self.watch_timeout + WATCH_TIMEOUT_MARGIN));
        let mut body = pin!(response.into_body());
        let mut lines = WatchLineSplitter::default();
        let mut pool = DecodePool::new();
        let mut is_open = true;
        while is_open || !pool.is_empty() {
            tokio::select! {
                biased;
                decoded = pool.next(), if !pool.is_empty() => {
                    let (events, error) = decoded.unwrap_or_else(|| Ok((Vec::new(), None)))?;
                    self.send_events(events, &mut is_list, out).await;
                    if let Some(error) = error {
                        return Err(error);
                    }
                }
                frame = body.frame(), if is_open && pool.has_capacity() => {
                    match frame {
                        Some(Ok(frame)) => {
                            if let Ok(bytes) = frame.into_data() {
                                lines.push(&bytes);
                            }
                        }
                        Some(Err(error)) => return Err(connection_error(&error)),
                        None => is_open = false,
                    }
                }
                () = &mut deadline, if is_open && pool.has_capacity() => return Err(watch_timeout_error()),
            }
            let size = lines.complete().size();
            // It is unknown whether more of the list is on its way, so a partial batch waits only while an earlier batch is
            // being decoded.
            if lines.complete().len() > 0 && (!is_list || pool.is_empty() || size >= DECODE_BATCH_BYTES) {
                let batch = lines.take();
                let decoder = self.decoder.clone();
                pool.add(if is_list { size } else { 0 }, move || {
                    decoder.decode_watch_events(&batch)
                });
            }
        }
        Ok(())
    }

    async fn send_events(&self, events: Vec<DecodedEvent>, is_list: &mut bool, out: &WatchEventSender) {
        let mut listed = Vec::new();
        for event in events {
            let event = match event {
                DecodedEvent::Applied(object) if *is_list => {
                    listed.push(object);
                    continue;
                }
                DecodedEvent::Applied(object) => WatchEvent::Applied(object),
                DecodedEvent::Deleted(object) => WatchEvent::Deleted(object),
                DecodedEvent::Undecodable(event) => event,
                DecodedEvent::Bookmark { version, ends_list } if *is_list => {
                    if !ends_list {
                        continue;
                    }
                    *is_list = false;
                    self.streaming.store(true, Ordering::Relaxed);
                    out.send(Ok(WatchEvent::ListItems(std::mem::take(&mut listed))))
                        .await;
                    WatchEvent::ListComplete { version }
                }
                DecodedEvent::Bookmark { version, .. } => WatchEvent::Bookmark { version },
            };
            out.send(Ok(event)).await;
        }
        if !listed.is_empty() {
            out.send(Ok(WatchEvent::ListItems(listed))).await;
        }
    }

    /// Sends a request. A response with an error status becomes a [`ListWatchError`].
    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        accept: &'static str,
    ) -> Result<Response<Body>, ListWatchError> {
        let mut request = request.map_err(|error| ListWatchError::Failed(error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        // API servers compress every watch event as a gzip stream of its own, and most decoders stop after the first one.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let response = self.client.send(request.map(Body::from)).await;
        let response = response.map_err(|error| ListWatchError::Failed(with_causes(&error)))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(response_error(response).await)
    }
}

async fn response_error(response: Response<Body>) -> ListWatchError {
    let code = response.status();
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    let retry_after = retry_after.map(Duration::from_secs);
    let body = Limited::new(response.into_body(), MAX_ERROR_BODY_BYTES)
        .collect()
        .await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    if let Some(status) = parse_status(&body) {
        return status_error(&status, retry_after);
    }
    let message = String::from_utf8_lossy(&body).trim().to_owned();
    if code == StatusCode::GONE {
        return ListWatchError::Expired(message);
    }
    ListWatchError::Rejected {
        code: code.as_u16(),
        message,
        retry_after,
    }
}

fn watch_timeout_error() -> ListWatchError {
    ListWatchError::Failed(
        "the watch did not end at its timeout: the connection is considered dead".to_owned(),
    )
}

fn connection_error(error: &(dyn std::error::Error + 'static)) -> ListWatchError {
    ListWatchError::Failed(with_causes(error))
}
