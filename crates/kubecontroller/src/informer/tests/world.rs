//! A server of one kind that can be told to misbehave.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{Request, Response, StatusCode, header::ACCEPT};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

/// The server. Clones are the same.
#[derive(Clone)]
pub(super) struct World {
    inner: Arc<Mutex<Inner>>,
    /// DeltaStream whenever anything does.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    version: u64,
    objects: BTreeMap<String, Value>,
    log: Vec<Change>,
    /// What came before is forgotten.
    oldest: u64,
    /// Pages that have been promised.
    pages: HashMap<String, (u64, Vec<Value>)>,
    /// Watches that began before the last change of this are cut.
    cuts: u64,
    faults: VecDeque<Fault>,
    requests: Vec<String>,
    open_watches: usize,
}

#[derive(Clone)]
struct Change {
    version: u64,
    line: String,
}

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Fault {
    #[default]
    Nothing,
    Status(u16),
    /// The first thing a watch says is that its version is gone.
    ErrorEvent,
    /// After so many bytes the connection breaks.
    Break(usize),
    /// After so many bytes the answer ends as if it were complete.
    End(usize),
    /// The answer comes in frames of this size.
    Torn(usize),
    /// The watch says some things again that were said before it.
    Repeat,
    Slow(Duration),
    /// The answer never goes on after so many bytes.
    Hang(usize),
    /// The page's token is not known.
    ForgetPages,
}

/// How long a server that has too much to do wants to be left alone.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(7);

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

// --- World ---

impl World {
    pub(super) fn new() -> Self {
        World {
            inner: Arc::default(),
            changes: watch::Sender::new(0),
        }
    }

    pub(super) fn client(&self) -> kube::Client {
        let world = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let world = world.clone();
            let accept = request
                .headers()
                .get(ACCEPT)
                .and_then(|accept| accept.to_str().ok());
            let asked = format!("{} {}", request.uri(), accept.unwrap_or_default());
            async move { Ok::<_, io::Error>(world.answer(&asked).await) }
        });
        kube::Client::new(service, "default")
    }

    /// Makes or changes an object.
    pub(super) fn set(&self, name: &str, value: &str) -> u64 {
        let mut inner = self.lock();
        inner.version += 1;
        let version = inner.version;
        let old = inner.objects.get(name);
        let uid = old.map_or_else(
            || json!(format!("uid-{version}")),
            |old| old["metadata"]["uid"].clone(),
        );
        let kind = if old.is_some() { "MODIFIED" } else { "ADDED" };
        let object = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": version.to_string(), "labels": {"app": value}},
            "data": {"value": value},
        });
        inner.objects.insert(name.to_owned(), object.clone());
        inner.record(kind, &object);
        drop(inner);
        self.wake();
        version
    }

    pub(super) fn delete(&self, name: &str) -> Option<u64> {
        let mut inner = self.lock();
        let mut object = inner.objects.remove(name)?;
        inner.version += 1;
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        inner.record("DELETED", &object);
        let version = inner.version;
        drop(inner);
        self.wake();
        Some(version)
    }

    /// A bookmark for every watch.
    pub(super) fn bookmark(&self) -> u64 {
        let mut inner = self.lock();
        inner.version += 1;
        let object = json!({"metadata": {"resourceVersion": inner.version.to_string()}});
        inner.record("BOOKMARK", &object);
        let version = inner.version;
        drop(inner);
        self.wake();
        version
    }

    /// Sends a line to every watch.
    pub(super) fn say(&self, line: &str) {
        let mut inner = self.lock();
        inner.version += 1;
        let version = inner.version;
        let line = format!("{line}\n");
        inner.log.push(Change { version, line });
        drop(inner);
        self.wake();
    }

    /// Puts a raw object into lists.
    pub(super) fn put(&self, name: &str, object: Value) {
        self.lock().objects.insert(name.to_owned(), object);
    }

    /// Breaks the connections of all watches.
    pub(super) fn cut(&self) {
        self.lock().cuts += 1;
        self.wake();
    }

    /// Forgets what came before now.
    pub(super) fn forget(&self) {
        let mut inner = self.lock();
        inner.oldest = inner.version;
        inner.pages.clear();
    }

    /// What goes wrong with the next requests, one each.
    pub(super) fn faults(&self, faults: impl IntoIterator<Item = Fault>) {
        self.lock().faults.extend(faults);
    }

    /// The names, with their versions.
    pub(super) fn objects(&self) -> BTreeMap<String, String> {
        let inner = self.lock();
        let version = |object: &Value| {
            object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        inner
            .objects
            .iter()
            .map(|(name, object)| (name.clone(), version(object)))
            .collect()
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.lock().requests.clone()
    }

    /// How many requests had this in their address.
    pub(super) fn asked(&self, what: &str) -> usize {
        self.requests()
            .iter()
            .filter(|request| request.contains(what))
            .count()
    }

    pub(super) fn open_watches(&self) -> usize {
        self.lock().open_watches
    }

    fn wake(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    async fn answer(&self, asked: &str) -> Answer {
        let address = asked.split(' ').next().unwrap_or_default();
        let query = query(address.split_once('?').unwrap_or_default().1);
        let fault = {
            let mut inner = self.lock();
            inner.requests.push(asked.to_owned());
            inner.faults.pop_front().unwrap_or_default()
        };
        match fault {
            Fault::Status(code) => return refuse(code, "as told"),
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

    fn list(&self, query: &HashMap<String, String>, fault: Fault) -> Answer {
        let mut inner = self.lock();
        let (version, mut rest) = match query.get("continue") {
            Some(token) => match inner.pages.remove(token) {
                Some(page) => page,
                None => return refuse(410, "the continue token is too old"),
            },
            None => (inner.version, inner.objects.values().cloned().collect()),
        };
        let mut token = String::new();
        if let Some(limit) = query.get("limit").map(|limit| limit.parse().unwrap())
            && rest.len() > limit
        {
            token = format!("{version}-{}", rest.len());
            let later = rest.split_off(limit);
            inner.pages.insert(token.clone(), (version, later));
        }
        let list = json!({"kind": "List", "items": rest, "metadata": {"resourceVersion": version.to_string(), "continue": token}});
        let whole = stream::once(async move { list.to_string() });
        ok(spoiled(whole, fault))
    }

    fn watch(&self, query: &HashMap<String, String>, fault: Fault) -> Answer {
        let mut inner = self.lock();
        let streaming = query.contains_key("sendInitialEvents");
        let asked: u64 = query["resourceVersion"].parse().unwrap_or(0);
        let mut first = String::new();
        let mut position = asked;
        if streaming {
            for object in inner.objects.values() {
                first += &line("ADDED", object);
            }
            let end = json!({"metadata": {
                "resourceVersion": inner.version.to_string(),
                "annotations": {"k8s.io/initial-events-end": "true"},
            }});
            first += &line("BOOKMARK", &end);
            position = inner.version;
        } else if asked < inner.oldest || fault == Fault::ErrorEvent {
            first = line(
                "ERROR",
                &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}),
            );
        } else if fault == Fault::Repeat {
            let old = inner
                .log
                .iter()
                .filter(|change| change.version <= asked && change.version > inner.oldest);
            first = old.map(|change| change.line.as_str()).collect();
        }
        inner.open_watches += 1;
        let watch = Watch {
            world: self.clone(),
            changes: self.changes.subscribe(),
            position,
            cuts: inner.cuts,
        };
        let later = stream::unfold(
            watch,
            |mut watch| async move { Some((watch.next().await?, watch)) },
        );
        ok(spoiled(stream::iter([first]).chain(later), fault))
    }
}

impl Inner {
    fn record(&mut self, kind: &str, object: &Value) {
        let (version, line) = (self.version, line(kind, object));
        self.log.push(Change { version, line });
    }
}

/// A watch that goes on.
struct Watch {
    world: World,
    changes: watch::Receiver<u64>,
    position: u64,
    cuts: u64,
}

impl Watch {
    /// The next line; `None` when it is cut.
    async fn next(&mut self) -> Option<String> {
        loop {
            self.changes.borrow_and_update();
            {
                let inner = self.world.lock();
                if inner.cuts != self.cuts {
                    return None;
                }
                if let Some(change) = inner.log.iter().find(|change| change.version > self.position) {
                    self.position = change.version;
                    return Some(change.line.clone());
                }
            }
            self.changes.changed().await.ok()?;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.world.lock().open_watches -= 1;
    }
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// An answer with its fault.
fn spoiled(
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

fn ok(body: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Answer {
    let frames = body.map(|bytes| bytes.map(Frame::data));
    Response::new(StreamBody::new(frames).boxed_unsync())
}

fn refuse(code: u16, message: &str) -> Answer {
    let seconds = if code == 429 { RETRY_AFTER.as_secs() } else { 0 };
    let details = json!({"retryAfterSeconds": seconds});
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": "Told", "message": message, "details": details});
    let mut answer = ok(stream::iter([Ok(Bytes::from(status.to_string()))]));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}

fn query(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
