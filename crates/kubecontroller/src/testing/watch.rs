//! Watches and their faults.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body::Frame;
use kube::core::Status;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    FakeApiState,
    cluster::{Change, FakeCluster, metadata},
    faults::Signal,
    http::ConnectionBroken,
    resource::RequestTarget,
    response_format::{BookmarkKind, ResponseFormat},
    selection::Selection,
};

/// A watch request.
pub(super) struct WatchRequest {
    pub(super) target: RequestTarget,
    pub(super) kind: String,
    pub(super) selection: Selection,
    pub(super) view: ResponseFormat,
    /// The version to start from. None: synthetic `ADDED` events for all objects first.
    pub(super) since: Option<u64>,
    /// `sendInitialEvents`: all objects, followed by a bookmark with the annotation `k8s.io/initial-events-end`.
    pub(super) initial: bool,
    pub(super) bookmarks: bool,
    pub(super) timeout: Option<Duration>,
}

/// A running watch.
struct RunningWatch {
    inner: Arc<FakeApiState>,
    request: WatchRequest,
    /// The version up to which events have been added to `ready`.
    position: u64,
    ready: VecDeque<Value>,
    signal: watch::Receiver<Signal>,
    /// The last signal that was processed.
    seen: Signal,
    ends: Option<Instant>,
    bookmark_at: Option<Instant>,
    sent: usize,
    /// Whether the watch ends after the events in `ready`.
    is_over: bool,
}

type WatchFrame = Result<Frame<Bytes>, ConnectionBroken>;

/// Starts a watch and returns the frames of its response body.
pub(super) fn start(
    inner: Arc<FakeApiState>,
    request: WatchRequest,
) -> impl Stream<Item = WatchFrame> + Send + 'static {
    let signal = inner.faults.subscribe();
    let seen = *signal.borrow();
    let now = Instant::now();
    let mut watching = RunningWatch {
        position: 0,
        ready: VecDeque::new(),
        signal,
        seen,
        ends: request.timeout.map(|timeout| now + timeout),
        bookmark_at: None,
        sent: 0,
        is_over: false,
        inner,
        request,
    };
    watching.begin();
    stream::unfold(Some(watching), |watching| async {
        let mut watching = watching?;
        match watching.next().await? {
            Ok(frame) => Some((Ok(frame), Some(watching))),
            Err(broken) => Some((Err(broken), None)),
        }
    })
}

// --- RunningWatch ---

impl RunningWatch {
    /// Queues the initial events.
    fn begin(&mut self) {
        let inner = self.inner.clone();
        let cluster = inner.cluster();
        self.schedule_bookmark();
        let Some(since) = self.request.since.filter(|_| !self.request.initial) else {
            self.position = cluster.version();
            let mut objects = cluster
                .list_at(&self.request.target.id, self.position, None)
                .unwrap_or_default();
            objects.retain(|(_, object)| self.request.selection.fits(object));
            for (_, object) in &objects {
                self.push("ADDED", object);
            }
            if self.request.initial {
                let end = self.bookmark(BookmarkKind::InitialEventsEnd);
                self.ready.push_back(end);
            }
            return;
        };
        self.position = since;
        if since < cluster.oldest() {
            self.fail(&super::status::expired(since, cluster.oldest()));
            return;
        }
        let replays = inner.faults.of_watches().replays;
        if replays > 0 {
            let earlier = cluster.since(&self.request.target.id, cluster.oldest());
            let until = earlier.partition_point(|change| change.version <= since);
            for change in &earlier[until.saturating_sub(replays)..until] {
                self.push_change(change);
            }
        }
    }

    /// The next frame; none at the end.
    async fn next(&mut self) -> Option<WatchFrame> {
        loop {
            let now = *self.signal.borrow_and_update();
            if now.drops != self.seen.drops {
                return None;
            }
            if now.breaks != self.seen.breaks {
                return Some(Err(ConnectionBroken));
            }
            if now.expiries != self.seen.expiries && !self.is_over {
                self.ready.clear();
                let version = self.inner.cluster().oldest();
                self.fail(&super::status::expired(self.position, version));
            }
            if now.bookmarks != self.seen.bookmarks && self.request.bookmarks && !self.is_over {
                self.fill();
                let bookmark = self.bookmark(BookmarkKind::Progress);
                self.ready.push_back(bookmark);
            }
            self.seen = now;
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(self.send(&event)));
            }
            if self.is_over {
                return None;
            }
            self.fill();
            if self.ready.is_empty() && !self.is_over {
                self.pause().await;
            }
        }
    }

    /// Waits for a change, a bookmark or the timeout.
    async fn pause(&mut self) {
        let never = Instant::now() + Duration::from_hours(365 * 24);
        let until = |time: Option<Instant>| sleep_until(time.unwrap_or(never));
        tokio::select! {
            biased;
            changed = self.signal.changed() => self.is_over = changed.is_err(),
            () = until(self.ends), if self.ends.is_some() => {
                if self.request.bookmarks {
                    let bookmark = self.bookmark(BookmarkKind::Progress);
                    self.ready.push_back(bookmark);
                }
                self.is_over = true;
            }
            () = until(self.bookmark_at), if self.bookmark_at.is_some() => {
                let bookmark = self.bookmark(BookmarkKind::Progress);
                self.ready.push_back(bookmark);
                self.schedule_bookmark();
            }
        }
    }

    /// Queues the changes since `position`.
    fn fill(&mut self) {
        let inner = self.inner.clone();
        let cluster: &FakeCluster = &inner.cluster();
        for change in cluster.since(&self.request.target.id, self.position) {
            self.push_change(&change);
        }
        self.position = self.position.max(cluster.version());
    }

    /// Queues the event for a change. An object that starts or stops matching the selectors is added or deleted.
    fn push_change(&mut self, change: &Change) {
        let fits = |object: &Option<Arc<Value>>| {
            object
                .clone()
                .filter(|object| self.request.selection.fits(object))
        };
        match (fits(&change.old), fits(&change.new)) {
            (None, Some(new)) => self.push("ADDED", &new),
            (Some(_), Some(new)) => self.push("MODIFIED", &new),
            (Some(old), None) => {
                let mut last = (*old).clone();
                metadata(&mut last).insert("resourceVersion".to_owned(), change.version.to_string().into());
                self.push("DELETED", &last);
            }
            (None, None) => {}
        }
    }

    fn push(&mut self, kind: &str, object: &Value) {
        let event = json!({"type": kind, "object": self.request.view.object(object, &self.request.target)});
        for _ in 0..=self.inner.faults.of_watches().duplicates {
            self.ready.push_back(event.clone());
        }
    }

    fn fail(&mut self, status: &Status) {
        self.ready
            .push_back(json!({"type": "ERROR", "object": super::http::status_json(status)}));
        self.is_over = true;
    }

    fn bookmark(&self, bookmark: BookmarkKind) -> Value {
        let kind = &self.request.kind;
        let object = self
            .request
            .view
            .bookmark(&self.request.target, kind, self.position, bookmark);
        json!({"type": "BOOKMARK", "object": object})
    }

    fn schedule_bookmark(&mut self) {
        self.bookmark_at = self
            .request
            .bookmarks
            .then(|| Instant::now() + self.inner.bookmark_every());
    }

    /// Encodes an event as a line, truncated if a fault requests it.
    fn send(&mut self, event: &Value) -> Frame<Bytes> {
        let mut line = event.to_string().into_bytes();
        line.push(b'\n');
        self.sent += 1;
        if self
            .inner
            .faults
            .of_watches()
            .end_after
            .is_some_and(|after| self.sent >= after)
        {
            self.ready.clear();
            self.is_over = true;
        }
        if self.inner.faults.truncates() {
            line.truncate(line.len() / 2);
            self.ready.clear();
            self.is_over = true;
        }
        Frame::data(Bytes::from(line))
    }
}
