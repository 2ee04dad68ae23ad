//! A server of config maps that fails on demand.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{Request, Response, StatusCode, header::ACCEPT};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;

/// The server. Clones are the same server.
#[derive(Clone)]
pub(super) struct FakeServer {
    state: Arc<Mutex<ServerState>>,
    /// Incremented after every change, so that watches check for it.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct ServerState {
    version: u64,
    objects: BTreeMap<String, Value>,
    log: Vec<LogEntry>,
    /// The log before this version is compacted.
    oldest: u64,
    /// The remaining items of paged lists, by continue token.
    pages: HashMap<String, (u64, Vec<Value>)>,
    /// How often all watches were cut.
    cuts: u64,
    faults: VecDeque<Fault>,
    requests: Vec<String>,
    open_watches: usize,
}

#[derive(Clone)]
struct LogEntry {
    version: u64,
    line: String,
}

/// How a request fails.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Fault {
    #[default]
    Nothing,
    Status(u16),
    /// The first event of the watch is an ERROR event with code 410.
    ErrorEvent,
    /// The connection is reset after this many bytes.
    Break(usize),
    /// The response ends after this many bytes as if it were complete.
    End(usize),
    /// The response arrives in frames of this size.
    Torn(usize),
    /// The watch repeats events from before its version.
    Repeat,
    Slow(Duration),
    /// The response stalls after this many bytes.
    Hang(usize),
    /// The continue token is unknown.
    ForgetPages,
}

/// The `retryAfterSeconds` of 429 responses.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(7);

type ServerResponse = Response<UnsyncBoxBody<Bytes, io::Error>>;

// --- FakeServer ---

impl FakeServer {
    pub(super) fn new() -> Self {
        FakeServer {
            state: Arc::default(),
            changes: watch::Sender::new(0),
        }
    }

    pub(super) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            let accept = request
                .headers()
                .get(ACCEPT)
                .and_then(|accept| accept.to_str().ok());
            let request = format!("{} {}", request.uri(), accept.unwrap_or_default());
            async move { Ok::<_, io::Error>(server.respond(&request).await) }
        });
        kube::Client::new(service, "default")
    }

    /// Creates or updates an object.
    pub(super) fn set(&self, name: &str, value: &str) -> u64 {
        let mut state = self.lock();
        state.version += 1;
        let version = state.version;
        let old = state.objects.get(name);
        let uid = old.map_or_else(
            || json!(format!("uid-{version}")),
            |old| old["metadata"]["uid"].clone(),
        );
        let kind = if old.is_some() { "MODIFIED" } else { "ADDED" };
        let object = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": version.to_string(), "labels": {"app": value}},
            "data": {"value": value},
        });
        state.objects.insert(name.to_owned(), object.clone());
        state.record(kind, &object);
        drop(state);
        self.notify_watches();
        version
    }

    pub(super) fn delete(&self, name: &str) -> Option<u64> {
        let mut state = self.lock();
        let mut object = state.objects.remove(name)?;
        state.version += 1;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.record("DELETED", &object);
        let version = state.version;
        drop(state);
        self.notify_watches();
        Some(version)
    }

    /// Sends a bookmark to every watch.
    pub(super) fn bookmark(&self) -> u64 {
        let mut state = self.lock();
        state.version += 1;
        let object = json!({"metadata": {"resourceVersion": state.version.to_string()}});
        state.record("BOOKMARK", &object);
        let version = state.version;
        drop(state);
        self.notify_watches();
        version
    }

    /// Sends a raw line to every watch.
    pub(super) fn send_line(&self, line: &str) {
        let mut state = self.lock();
        state.version += 1;
        let version = state.version;
        let line = format!("{line}\n");
        state.log.push(LogEntry { version, line });
        drop(state);
        self.notify_watches();
    }

    /// Adds a raw object to lists, without an event.
    pub(super) fn put(&self, name: &str, object: Value) {
        self.lock().objects.insert(name.to_owned(), object);
    }

    /// Resets the connections of all watches.
    pub(super) fn cut(&self) {
        self.lock().cuts += 1;
        self.notify_watches();
    }

    /// Compacts the log: watches from earlier versions fail with 410.
    pub(super) fn compact(&self) {
        let mut state = self.lock();
        state.oldest = state.version;
        state.pages.clear();
    }

    /// Queues faults for the next requests, one for each request.
    pub(super) fn add_faults(&self, faults: impl IntoIterator<Item = Fault>) {
        self.lock().faults.extend(faults);
    }

    /// The names of the objects, with their resource versions.
    pub(super) fn objects(&self) -> BTreeMap<String, String> {
        let state = self.lock();
        let version = |object: &Value| {
            object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        state
            .objects
            .iter()
            .map(|(name, object)| (name.clone(), version(object)))
            .collect()
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.lock().requests.clone()
    }

    /// How many requests contained this text.
    pub(super) fn count_requests(&self, what: &str) -> usize {
        self.requests()
            .iter()
            .filter(|request| request.contains(what))
            .count()
    }

    pub(super) fn open_watches(&self) -> usize {
        self.lock().open_watches
    }

    fn notify_watches(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock()
    }

    async fn respond(&self, request: &str) -> ServerResponse {
        let address = request.split(' ').next().unwrap_or_default();
        let query = parse_query(address.split_once('?').unwrap_or_default().1);
        let fault = {
            let mut state = self.lock();
            state.requests.push(request.to_owned());
            state.faults.pop_front().unwrap_or_default()
        };
        match fault {
            Fault::Status(code) => return error_response(code, "injected fault"),
            Fault::Slow(time) => tokio::time::sleep(time).await,
            Fault::ForgetPages => self.lock().pages.clear(),
            _ => {}
        }
        if query.contains_key("watch") {
            self.watch(&query, fault)
        } else {
            self.list(&query, fault)
        }
    }

    fn list(&self, query: &HashMap<String, String>, fault: Fault) -> ServerResponse {
        let mut state = self.lock();
        let (version, mut rest) = match query.get("continue") {
            Some(token) => match state.pages.remove(token) {
                Some(page) => page,
                None => return error_response(410, "the continue token is too old"),
            },
            None => (state.version, state.objects.values().cloned().collect()),
        };
        let mut token = String::new();
        if let Some(limit) = query.get("limit").map(|limit| limit.parse().unwrap())
            && rest.len() > limit
        {
            token = format!("{version}-{}", rest.len());
            let later = rest.split_off(limit);
            state.pages.insert(token.clone(), (version, later));
        }
        let list = json!({"kind": "List", "items": rest, "metadata": {"resourceVersion": version.to_string(), "continue": token}});
        let text = stream::once(async move { list.to_string() });
        ok_response(with_fault(text, fault))
    }

    fn watch(&self, query: &HashMap<String, String>, fault: Fault) -> ServerResponse {
        let mut state = self.lock();
        let streaming = query.contains_key("sendInitialEvents");
        let requested: u64 = query["resourceVersion"].parse().unwrap_or(0);
        let mut first = String::new();
        let mut position = requested;
        if streaming {
            for object in state.objects.values() {
                first += &event_line("ADDED", object);
            }
            let end = json!({"metadata": {
                "resourceVersion": state.version.to_string(),
                "annotations": {"k8s.io/initial-events-end": "true"},
            }});
            first += &event_line("BOOKMARK", &end);
            position = state.version;
        } else if requested < state.oldest || fault == Fault::ErrorEvent {
            first = event_line(
                "ERROR",
                &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}),
            );
        } else if fault == Fault::Repeat {
            let old = state
                .log
                .iter()
                .filter(|change| change.version <= requested && change.version > state.oldest);
            first = old.map(|change| change.line.as_str()).collect();
        }
        state.open_watches += 1;
        let watch = ServerWatch {
            server: self.clone(),
            changes: self.changes.subscribe(),
            position,
            cuts: state.cuts,
        };
        let later = stream::unfold(
            watch,
            |mut watch| async move { Some((watch.next().await?, watch)) },
        );
        ok_response(with_fault(stream::iter([first]).chain(later), fault))
    }
}

impl ServerState {
    fn record(&mut self, kind: &str, object: &Value) {
        self.log.push(LogEntry {
            version: self.version,
            line: event_line(kind, object),
        });
    }
}

/// An open watch.
struct ServerWatch {
    server: FakeServer,
    changes: watch::Receiver<u64>,
    position: u64,
    cuts: u64,
}

impl ServerWatch {
    /// The next line; `None` when the watch is cut.
    async fn next(&mut self) -> Option<String> {
        loop {
            self.changes.borrow_and_update();
            {
                let state = self.server.lock();
                if state.cuts != self.cuts {
                    return None;
                }
                if let Some(change) = state.log.iter().find(|change| change.version > self.position) {
                    self.position = change.version;
                    return Some(change.line.clone());
                }
            }
            self.changes.changed().await.ok()?;
        }
    }
}

impl Drop for ServerWatch {
    fn drop(&mut self) {
        self.server.lock().open_watches -= 1;
    }
}

fn event_line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// A response body with a fault in it.
fn with_fault(
    texts: impl Stream<Item = String> + Send + 'static,
    fault: Fault,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let (size, limit) = match fault {
        Fault::Torn(size) => (size.max(1), usize::MAX),
        Fault::Break(limit) | Fault::End(limit) | Fault::Hang(limit) => (7, limit),
        _ => (usize::MAX, usize::MAX),
    };
    let pieces = texts.flat_map(move |text| {
        let bytes = text.into_bytes();
        let pieces: Vec<_> = bytes
            .chunks(size.min(bytes.len().max(1)))
            .map(Bytes::copy_from_slice)
            .collect();
        stream::iter(pieces)
    });
    let within = stream::unfold((pieces.boxed(), limit), |(mut pieces, left)| async move {
        if left == 0 {
            return None;
        }
        let mut piece = pieces.next().await?;
        piece.truncate(left);
        let left = left - piece.len();
        Some((piece, (pieces, left)))
    });
    let end: stream::BoxStream<'static, io::Result<Bytes>> = match fault {
        Fault::Break(_) => stream::iter([Err(io::ErrorKind::ConnectionReset.into())]).boxed(),
        Fault::Hang(_) => stream::pending().boxed(),
        _ => stream::empty().boxed(),
    };
    within.map(Ok).chain(end)
}

fn ok_response(body: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> ServerResponse {
    let frames = body.map(|bytes| bytes.map(Frame::data));
    Response::new(StreamBody::new(frames).boxed_unsync())
}

fn error_response(code: u16, message: &str) -> ServerResponse {
    let seconds = if code == 429 { RETRY_AFTER.as_secs() } else { 0 };
    let details = json!({"retryAfterSeconds": seconds});
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": "Injected", "message": message, "details": details});
    let mut response = ok_response(stream::iter([Ok(Bytes::from(status.to_string()))]));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn parse_query(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
