//! The API of a cluster as a source: list and watch over HTTP.

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
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    decode::{DecodedEvent, Decoder, Unknown, known, refusal, status},
    flow::{Sender, flow},
    identity::Identity,
    items::Items,
    lines::Lines,
    list_watch::{ListWatch, ListWatchError, ListWatchStart, WatchEvent},
    options::InformerOptions,
    pool::Pool,
};
use crate::{causes::with_causes, object::Object};

/// List and watch of a kind and scope.
pub(super) struct Api {
    call: Arc<Call>,
}

struct Call {
    client: kube::Client,
    request: Request,
    identity: Identity,
    decoder: Decoder,
    page_size: Option<u32>,
    watch_timeout: Duration,
    /// Whether the next list comes as events. Not after one that did not come to its end.
    streaming: AtomicBool,
}

type Out = Sender<Result<WatchEvent<Unknown>, ListWatchError>>;

/// How many events may wait for the store.
const AHEAD: usize = 4;
/// How much is decoded in one go.
const BATCH: usize = 256 * 1024;
/// What is read of an answer that says no.
const LONGEST_REFUSAL: usize = 64 * 1024;
/// How much longer than agreed a watch may last before its connection counts as dead.
const MARGIN: Duration = Duration::from_secs(5);

// --- Api ---

impl Api {
    pub(super) fn new<T>(
        client: kube::Client,
        identity: Identity,
        decoder: Decoder,
        options: &InformerOptions<T>,
    ) -> Self {
        Api {
            call: Arc::new(Call {
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

impl<T: Object> ListWatch<T> for Api {
    fn open(&mut self, start: ListWatchStart) -> BoxStream<'static, Result<WatchEvent<T>, ListWatchError>> {
        let events = Arc::clone(&self.call).open(start);
        events.map(|event| event.map(known)).boxed()
    }
}

// --- Call ---

impl Call {
    fn open(
        self: Arc<Self>,
        start: ListWatchStart,
    ) -> BoxStream<'static, Result<WatchEvent<Unknown>, ListWatchError>> {
        flow(AHEAD, |out| async move {
            let result = match start {
                ListWatchStart::List { consistent } => self.list(consistent, &out).await,
                ListWatchStart::Version(version) => self.watch(&version, &out).await,
            };
            if let Err(trouble) = result {
                out.send(Err(trouble)).await;
            }
        })
    }

    async fn list(&self, consistent: bool, out: &Out) -> Result<(), ListWatchError> {
        out.send(Ok(WatchEvent::Restarted)).await;
        if self.streaming.swap(false, Ordering::Relaxed) {
            let version = if consistent { "" } else { "0" };
            match self.streaming_list(version, out).await {
                // The server does not know how.
                Err(ListWatchError::Refused {
                    code: 400 | 403 | 405 | 422,
                    ..
                }) => {}
                result => return result,
            }
        }
        self.paged_list(consistent, out).await
    }

    /// Lists page by page. A server may answer with all of it at once.
    async fn paged_list(&self, consistent: bool, out: &Out) -> Result<(), ListWatchError> {
        let mut params = ListParams {
            label_selector: self.identity.scope.labels.clone(),
            field_selector: self.identity.scope.fields.clone(),
            limit: self.page_size,
            resource_version: (!consistent).then(|| "0".to_owned()),
            ..ListParams::default()
        };
        loop {
            let request = self.request.list(&params);
            let response = self.send(request, self.identity.wire.accept_list()).await?;
            let metadata = self.read_items(response, out).await?;
            let metadata = metadata.metadata;
            params.continue_token = metadata.next.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = metadata.resource_version.unwrap_or_default();
                out.send(Ok(WatchEvent::Complete { version })).await;
                return Ok(());
            }
        }
    }

    /// Reads a page while it arrives, and decodes what is there while the rest does.
    async fn read_items(
        &self,
        response: Response<Body>,
        out: &Out,
    ) -> Result<super::items::Envelope, ListWatchError> {
        let mut body = pin!(response.into_body());
        let mut items = Items::default();
        let mut pool = Pool::new();
        let mut is_open = true;
        while is_open || !pool.is_empty() {
            tokio::select! {
                biased;
                decoded = pool.next(), if !pool.is_empty() => {
                    for event in decoded.unwrap_or_else(|| Ok(Ok(Vec::new())))?? {
                        out.send(Ok(event)).await;
                    }
                }
                frame = body.frame(), if is_open && pool.has_room() => {
                    match frame {
                        Some(frame) => {
                            if let Ok(bytes) = frame.map_err(|error| lost(&error))?.into_data() {
                                items.push(&bytes);
                            }
                        }
                        None => is_open = false,
                    }
                    if items.complete().size() >= BATCH || (!is_open && items.complete().len() > 0) {
                        let (batch, decoder) = (items.take(), self.decoder.clone());
                        pool.add(batch.size(), move || decoder.items(&batch));
                    }
                }
            }
        }
        items
            .envelope()
            .map_err(|error| ListWatchError::Broken(format!("the list is cut off or no list: {error}")))
    }

    /// Lists by watching.
    async fn streaming_list(&self, version: &str, out: &Out) -> Result<(), ListWatchError> {
        let response = self.send_watch(version, true).await?;
        self.read_lines(response, true, out).await
    }

    async fn watch(&self, version: &str, out: &Out) -> Result<(), ListWatchError> {
        let response = self.send_watch(version, false).await?;
        let version = version.to_owned();
        out.send(Ok(WatchEvent::Reached { version })).await;
        self.read_lines(response, false, out).await
    }

    async fn send_watch(
        &self,
        version: &str,
        send_initial_events: bool,
    ) -> Result<Response<Body>, ListWatchError> {
        let params = WatchParams {
            label_selector: self.identity.scope.labels.clone(),
            field_selector: self.identity.scope.fields.clone(),
            timeout: u32::try_from(self.watch_timeout.as_secs()).ok(),
            bookmarks: true,
            send_initial_events,
        };
        let request = self.request.watch(&params, version);
        let answer = self.send(request, self.identity.wire.accept_watch());
        // Even the answer to a connection that is dead may never come.
        let limit = self.watch_timeout + MARGIN;
        timeout(limit, answer).await.map_err(|_| dead())?
    }

    /// Reads events while they arrive. As long as they are those of a list, they are decoded beside the reading.
    async fn read_lines(
        &self,
        response: Response<Body>,
        mut is_list: bool,
        out: &Out,
    ) -> Result<(), ListWatchError> {
        let deadline = Instant::now() + self.watch_timeout + MARGIN;
        let mut body = pin!(response.into_body());
        let mut lines = Lines::default();
        let mut pool = Pool::new();
        let mut is_open = true;
        while is_open || !pool.is_empty() {
            tokio::select! {
                biased;
                told = pool.next(), if !pool.is_empty() => {
                    let (told, trouble) = told.unwrap_or_else(|| Ok((Vec::new(), None)))?;
                    self.tell(told, &mut is_list, out).await;
                    if let Some(trouble) = trouble {
                        return Err(trouble);
                    }
                }
                frame = timeout_at(deadline, body.frame()), if is_open && pool.has_room() => {
                    match frame {
                        Ok(Some(Ok(frame))) => {
                            if let Ok(bytes) = frame.into_data() {
                                lines.push(&bytes);
                            }
                        }
                        Ok(Some(Err(error))) => return Err(lost(&error)),
                        Ok(None) => is_open = false,
                        Err(_) => return Err(dead()),
                    }
                }
            }
            let size = lines.complete().size();
            // Whether more is on its way cannot be known: a list waits for a batch to be full only as long as there is other
            // work.
            if lines.complete().len() > 0 && (!is_list || pool.is_empty() || size >= BATCH) {
                let (batch, decoder) = (lines.take(), self.decoder.clone());
                pool.add(if is_list { size } else { 0 }, move || decoder.lines(&batch));
            }
        }
        Ok(())
    }

    async fn tell(&self, told: Vec<DecodedEvent>, is_list: &mut bool, out: &Out) {
        let mut listed = Vec::new();
        for event in told {
            let event = match event {
                DecodedEvent::Applied(object) if *is_list => {
                    listed.push(object);
                    continue;
                }
                DecodedEvent::Applied(object) => WatchEvent::Applied(object),
                DecodedEvent::Deleted(object) => WatchEvent::Deleted(object),
                DecodedEvent::Unreadable(event) => event,
                DecodedEvent::Bookmark { version, ends_list } if *is_list => {
                    if !ends_list {
                        continue;
                    }
                    *is_list = false;
                    self.streaming.store(true, Ordering::Relaxed);
                    out.send(Ok(WatchEvent::Listed(std::mem::take(&mut listed))))
                        .await;
                    WatchEvent::Complete { version }
                }
                DecodedEvent::Bookmark { version, .. } => WatchEvent::Reached { version },
            };
            out.send(Ok(event)).await;
        }
        if !listed.is_empty() {
            out.send(Ok(WatchEvent::Listed(listed))).await;
        }
    }

    /// Sends a request; an answer that is no success is trouble.
    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        accept: &'static str,
    ) -> Result<Response<Body>, ListWatchError> {
        let mut request = request.map_err(|error| ListWatchError::Broken(error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        // Servers compress each event of a watch on its own, which most decoders read as the end.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let response = self.client.send(request.map(Body::from)).await;
        let response = response.map_err(|error| ListWatchError::Broken(with_causes(&error)))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(said_no(response).await)
    }
}

async fn said_no(response: Response<Body>) -> ListWatchError {
    let code = response.status();
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    let retry_after = retry_after.map(Duration::from_secs);
    let body = Limited::new(response.into_body(), LONGEST_REFUSAL)
        .collect()
        .await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    if let Some(status) = status(&body) {
        return refusal(&status, retry_after);
    }
    let message = String::from_utf8_lossy(&body).trim().to_owned();
    if code == StatusCode::GONE {
        return ListWatchError::Expired(message);
    }
    ListWatchError::Refused {
        code: code.as_u16(),
        message,
        retry_after,
    }
}

fn dead() -> ListWatchError {
    ListWatchError::Broken("the watch does not end in time: its connection is dead".to_owned())
}

fn lost(error: &(dyn std::error::Error + 'static)) -> ListWatchError {
    ListWatchError::Broken(with_causes(error))
}
