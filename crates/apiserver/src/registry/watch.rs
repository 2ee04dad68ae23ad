//! WATCH: streams events, bookmarks and initial events.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use k3_api::{
    encode, protobuf,
    schema::ObjectType,
    status::Status,
    strategy::{Tree, TreeMut},
    time::Time,
};
use k3_storage::Revision;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep};

use super::{
    Registry, RequestContext, Resource, decryption,
    freshness::read_index,
    list::{SelectionPredicate, parse_version},
    response, storage_version,
    table::{self, TableColumns},
};
use crate::{
    cache::{
        CacheWatcher, CachedObject, EventDelivery, EventType, FrameFormat, TooOldResourceVersion,
        WatchCaches, WatchFilter, WatchStart, frame,
    },
    custom::{ConversionError, CustomResourceConverter},
    http::{self as web, BodyStream, Format, HttpResponse, ObjectForm, ResponseBody},
    metrics::WatchSeries,
    request::ListOptions,
};

/// How long a watch runs that does not say so: at least this, and up to twice that, so that not all end at once.
const SHORTEST: u64 = 1800;
/// How often bookmarks are sent.
const BOOKMARKS: Duration = Duration::from_mins(1);
/// How much is sent at a time.
const PIECE: usize = 64 * 1024;

/// A running watch, as a streamed response body.
struct WatchBody {
    /// Events from the cache; `None` when the watch has ended.
    watcher: Option<CacheWatcher>,
    /// Objects to begin with.
    initial: VecDeque<Arc<CachedObject>>,
    /// What ends the initial objects: a bookmark, if one was asked for.
    initial_end: Option<Revision>,
    selection: SelectionPredicate,
    resource: Resource,
    converter: Arc<CustomResourceConverter>,
    /// An event that a webhook is converting; nothing overtakes it.
    converting: Option<PendingConversion>,
    form: WatchForm,
    caches: Arc<WatchCaches>,
    bookmarks: Option<Pin<Box<Sleep>>>,
    end: Pin<Box<Sleep>>,
    /// The revision up to which everything was sent.
    sent: Revision,
    /// Metrics of the watches of the resource.
    metrics: Arc<WatchSeries>,
}

/// The word of an event, and its object in the version of the watch.
type PendingConversion = Pin<Box<dyn Future<Output = (&'static str, Result<Value, ConversionError>)> + Send>>;

/// What a bookmark marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BookmarkKind {
    /// How far the watch is.
    Progress,
    /// The end of the initial events (KEP-3157).
    InitialEventsEnd,
}

/// How events are written.
struct WatchForm {
    format: Format,
    form: ObjectForm,
    version: &'static str,
    include: String,
    now: Time,
    /// Whether the next table has the definitions of the columns: only the first has.
    next_columns: TableColumns,
}

// --- Registry ---

impl Registry {
    /// WATCH: streams events.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go serveWatchHandler, HandleHTTP
    pub(crate) async fn watch(
        &self,
        ctx: &RequestContext,
        options: &ListOptions,
    ) -> Result<HttpResponse, Status> {
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        if ctx.accepted.format == Format::Yaml {
            return Err(Status::not_acceptable(
                "only the following media types are accepted: application/json;stream=watch, \
                 application/vnd.kubernetes.protobuf;stream=watch",
            ));
        }
        let mut selection = SelectionPredicate::new(options, &resource)?;
        if !ctx.target.name.is_empty() {
            selection.only(&ctx.target.name);
        }
        let revision = match options.resource_version.as_str() {
            "" => Revision::ZERO,
            text => parse_version(text).map_err(|error| Status::unknown(error.to_string()))?,
        };
        if options.resource_version.is_empty() {
            read_index(&self.caches).await?;
        } else if options.initial_events == Some(true)
            && let Err(status) = self.wait_for(revision).await
        {
            // A watch without initial events begins at once, and leaves out what the client has seen.
            // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go waitUntilWatchCacheFreshAndForceAllEvents
            return Ok(one_error(&status, ctx));
        }
        let interest = interest(&selection, &resource, &ctx.target.namespace);
        let seconds = match options.timeout {
            Some(seconds) if seconds > 0 => u64::try_from(seconds).unwrap_or(SHORTEST),
            _ => SHORTEST + u64::from(ctx.now.nanos()) % SHORTEST,
        };
        let (watcher, snapshot) = loop {
            let applied = self.caches.applied();
            // Version 0, or none, begins with what is there; unless the client wants no more than what comes.
            let since = match (revision, options.initial_events) {
                (_, Some(true)) | (Revision::ZERO, None) => WatchStart::Now,
                (Revision::ZERO, Some(false)) => WatchStart::Revision(applied),
                (revision, _) => WatchStart::Revision(revision),
            };
            match resource.cache.watch(&interest, since, applied) {
                Ok(begun) => break begun,
                // The cache was loaded again in this moment; the client did not ask for what was before.
                Err(_) if revision == Revision::ZERO => {}
                Err(TooOldResourceVersion { oldest }) => {
                    return Ok(one_error(&resource_expired(revision, oldest), ctx));
                }
            }
        };
        let prefix = resource.under(&ctx.target.namespace);
        let snapshot = decryption::readable_snapshot(&self.caches, &resource, snapshot, &prefix).await?;
        let initial = snapshot
            .under(&prefix, None)
            .filter(|object| selection.matches(object, &resource))
            .cloned()
            .collect();
        let initial_end =
            (options.initial_events == Some(true) && options.bookmarks).then_some(snapshot.revision);
        let kind = &resource.kind;
        let metrics = self.metrics.watches(&kind.group, &kind.version, &kind.plural);
        let body = WatchBody {
            watcher: Some(watcher),
            initial,
            initial_end,
            selection,
            resource,
            converter: Arc::clone(&self.converter),
            converting: None,
            form: WatchForm {
                format: ctx.accepted.format,
                form: ctx.accepted.form,
                version: ctx.accepted.version,
                include: ctx.query.text("includeObject").to_owned(),
                now: ctx.now,
                next_columns: TableColumns::Include,
            },
            caches: Arc::clone(&self.caches),
            bookmarks: options.bookmarks.then(|| Box::pin(tokio::time::sleep(BOOKMARKS))),
            end: Box::pin(tokio::time::sleep(Duration::from_secs(seconds))),
            sent: revision,
            metrics,
        };
        Ok(web::answer(
            200,
            media(ctx.accepted.format),
            ResponseBody::Stream(Box::new(body)),
        ))
    }
}

fn media(format: Format) -> &'static str {
    match format {
        Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json",
    }
}

/// The response to a watch that cannot start: a single error event.
fn one_error(status: &Status, ctx: &RequestContext) -> HttpResponse {
    let frame = error_frame(status, ctx.accepted.format);
    web::answer(200, media(ctx.accepted.format), frame)
}

/// The error when events after a version are missing: it names the oldest version that a watch can start at.
/// `cache/watch_cache.rs` decides that a version is too old.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/watch_cache.go getAllEventsSinceLocked
// upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go NewResourceExpired
fn resource_expired(revision: Revision, oldest: Revision) -> Status {
    Status::expired(format!("too old resource version: {revision} ({oldest})"))
}

fn error_frame(status: &Status, format: Format) -> Vec<u8> {
    if format == Format::Protobuf {
        let ty = response::meta_type("Status").table();
        // A status has only texts and numbers, which can be encoded.
        let message = ty
            .and_then(|ty| protobuf::encode(&status.to_value(), ty).ok())
            .unwrap_or_default();
        return protobuf::watch_event("ERROR", &message);
    }
    format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status.to_json()).into_bytes()
}

/// Which events the cache is to send.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go triggerValuesThreadUnsafe
fn interest(selection: &SelectionPredicate, resource: &Resource, namespace: &str) -> WatchFilter {
    if let Some(name) = selection.name()
        && (!namespace.is_empty() || !resource.kind.is_namespaced())
    {
        return WatchFilter::Key(format!("{}{name}", resource.under(namespace)));
    }
    if let Some((position, value)) = selection.field() {
        return WatchFilter::Field(position, value.to_owned());
    }
    if namespace.is_empty() {
        WatchFilter::Everything
    } else {
        WatchFilter::Under(resource.under(namespace))
    }
}

// --- WatchBody ---

impl WatchBody {
    /// The type of an event for this watcher: an object that starts to match the selector is ADDED, one that ceases to
    /// match is DELETED. `None` if the event does not concern it.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go convertToWatchEvent
    fn as_type(&self, delivery: &EventDelivery) -> Option<EventType> {
        let event = &delivery.event;
        let matches = |object: &Option<Arc<CachedObject>>| {
            object
                .as_ref()
                .is_some_and(|object| self.selection.matches(object, &self.resource))
        };
        match (matches(&event.before), matches(&event.after)) {
            (true, true) => Some(EventType::Modified),
            (false, true) => Some(EventType::Added),
            (true, false) => Some(EventType::Deleted),
            (false, false) => None,
        }
    }

    /// Writes what waits in the queue, up to a piece. A frame that is alone is given as it is, shared by all watchers.
    fn drain(&mut self, out: &mut BytesMut, context: &mut Context<'_>) -> Option<Bytes> {
        let mut alone: Option<Bytes> = None;
        while let Some(watcher) = &mut self.watcher
            && out.len() < PIECE
            && self.converting.is_none()
        {
            match watcher.poll(context) {
                Poll::Ready(Some(delivery)) => {
                    if let Some(status) = self.undecrypted(&delivery) {
                        if let Some(first) = alone.take() {
                            out.extend_from_slice(&first);
                        }
                        self.end_with(out, &status);
                        break;
                    }
                    let Some(as_type) = self.as_type(&delivery) else {
                        continue;
                    };
                    if let Some(first) = alone.take() {
                        out.extend_from_slice(&first);
                    }
                    if out.is_empty() && self.is_shared(delivery.event.shown(as_type)) {
                        self.sent = delivery.event.revision;
                        let frame = delivery.frame(as_type, self.form.wire(), &self.resource.kind);
                        self.metrics.metrics.sent(frame.len());
                        alone = Some(frame);
                    } else {
                        let before = out.len();
                        self.write(out, &delivery, as_type);
                        self.metrics.metrics.sent(out.len() - before);
                    }
                }
                Poll::Ready(None) => {
                    if let Some(oldest) = watcher.lost_history() {
                        if let Some(first) = alone.take() {
                            out.extend_from_slice(&first);
                        }
                        let status = resource_expired(self.sent, oldest);
                        out.extend_from_slice(&error_frame(&status, self.form.format));
                    }
                    self.watcher = None;
                }
                Poll::Pending => break,
            }
        }
        alone
    }

    /// The error that ends the watch, if an event has an object that could not be decrypted: what it is to this watcher cannot
    /// be known.
    fn undecrypted(&self, delivery: &EventDelivery) -> Option<Status> {
        let object = delivery.event.object();
        let reason = object.undecrypted()?;
        Some(decryption::not_decrypted(&self.resource, object, &reason))
    }

    /// Writes an error, and ends the watch.
    fn end_with(&mut self, out: &mut BytesMut, status: &Status) {
        out.extend_from_slice(&error_frame(status, self.form.format));
        self.initial.clear();
        self.initial_end = None;
        self.watcher = None;
    }

    /// Whether its frames are those of all watchers.
    fn is_shared(&self, object: &CachedObject) -> bool {
        self.form.is_plain() && self.resource.serves_as_stored(object)
    }

    fn write(&mut self, out: &mut BytesMut, delivery: &EventDelivery, as_type: EventType) {
        self.sent = delivery.event.revision;
        if self.is_shared(delivery.event.shown(as_type)) {
            out.extend_from_slice(&delivery.frame(as_type, self.form.wire(), &self.resource.kind));
            return;
        }
        let object = Arc::clone(delivery.event.shown(as_type));
        self.write_object(out, as_type.word(), &object, delivery.event.revision);
    }

    fn write_initial(&mut self, out: &mut BytesMut, object: &CachedObject) {
        if self.is_shared(object) {
            let frame = frame(
                EventType::Added,
                object,
                object.revision,
                self.form.wire(),
                &self.resource.kind,
            );
            out.extend_from_slice(&frame);
            return;
        }
        self.write_object(out, EventType::Added.word(), object, object.revision);
    }

    /// Writes an event with an object in a form of its own.
    fn write_object(
        &mut self,
        out: &mut BytesMut,
        word: &'static str,
        object: &CachedObject,
        revision: Revision,
    ) {
        let of_metadata = matches!(self.form.form, ObjectForm::Metadata | ObjectForm::MetadataList);
        if of_metadata
            && self.form.format != Format::Protobuf
            && response::shows_metadata(&self.resource, object)
        {
            let mut text = format!("{{\"type\":\"{word}\",\"object\":").into_bytes();
            response::write_metadata(&mut text, object, revision, self.form.version);
            text.extend_from_slice(b"}\n");
            out.extend_from_slice(&text);
            return;
        }
        self.write_tree(out, word, object.tree_at(revision));
    }

    fn write_tree(&mut self, out: &mut BytesMut, word: &'static str, tree: Value) {
        let Some(served) = &self.resource.custom else {
            let tree = storage_version::convert(tree, &self.resource.stored, &self.resource.kind);
            return self.write_shown(out, word, tree);
        };
        let served = Arc::clone(served);
        let version = self.resource.kind.version.clone();
        let converter = Arc::clone(&self.converter);
        let has_webhook = served.has_webhook();
        let mut converting: PendingConversion = Box::pin(async move {
            let converted = converter.show(&served, vec![tree], &version).await;
            let converted = converted.map(|mut trees| trees.pop());
            let converted =
                converted.map(|tree| tree.expect("a conversion gives as many objects as it gets"));
            (word, converted)
        });
        if has_webhook {
            self.converting = Some(converting);
            return;
        }
        // Without a webhook, conversion completes at once.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready((word, converted)) = converting.as_mut().poll(&mut context) {
            self.write_converted(out, word, converted);
        }
    }

    /// Writes an event that was converted. One that cannot be ends the watch.
    fn write_converted(&mut self, out: &mut BytesMut, word: &str, converted: Result<Value, ConversionError>) {
        match converted {
            Ok(tree) => self.write_shown(out, word, tree),
            Err(error) => {
                let status = Status::unknown(error.to_string());
                self.end_with(out, &status);
            }
        }
    }

    /// Writes an event with an object in the version of the watch.
    fn write_shown(&mut self, out: &mut BytesMut, word: &str, tree: Value) {
        let (shown, ty) = match self.form.form {
            ObjectForm::Whole => (tree, self.resource.kind.ty.clone()),
            ObjectForm::Metadata | ObjectForm::MetadataList => (
                response::metadata_of(&tree, self.form.version),
                response::meta_type("PartialObjectMetadata"),
            ),
            ObjectForm::Table => {
                let columns = std::mem::replace(&mut self.form.next_columns, TableColumns::Omit);
                let form = &self.form;
                let table = table::event(
                    tree,
                    &form.include,
                    form.version,
                    form.now,
                    columns,
                    &self.resource,
                );
                (table, self.resource.kind.ty.clone())
            }
        };
        self.form.write(out, word, &shown, &ty);
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go nextBookmarkTime, add; progress bookmarks and the initial-events-end bookmark (KEP-3157)
    fn write_bookmark(&mut self, out: &mut BytesMut, revision: Revision, bookmark: BookmarkKind) {
        let kind = self.resource.kind.clone();
        let mut tree = Value::Object(kind.ty.zero());
        tree.set("kind", &kind.kind);
        tree.set("apiVersion", kind.api_version());
        let metadata = tree.ensure_object("metadata");
        metadata.set("resourceVersion", revision.to_string());
        if bookmark == BookmarkKind::InitialEventsEnd {
            metadata.set("annotations", json!({"k8s.io/initial-events-end": "true"}));
        }
        self.sent = revision;
        match self.form.form {
            ObjectForm::Whole => self.form.write(out, "BOOKMARK", &tree, &kind.ty),
            _ => self.write_shown(out, "BOOKMARK", tree),
        }
    }
}

impl BodyStream for WatchBody {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut out = BytesMut::new();
        loop {
            if let Some(converting) = &mut self.converting {
                match converting.as_mut().poll(context) {
                    Poll::Ready((word, converted)) => {
                        self.converting = None;
                        let before = out.len();
                        self.write_converted(&mut out, word, converted);
                        self.metrics.metrics.sent(out.len() - before);
                    }
                    Poll::Pending if out.is_empty() => return Poll::Pending,
                    Poll::Pending => return Poll::Ready(Some(out.freeze())),
                }
            }
            if out.len() >= PIECE {
                return Poll::Ready(Some(out.freeze()));
            }
            let Some(object) = self.initial.pop_front() else {
                break;
            };
            let before = out.len();
            self.write_initial(&mut out, &object);
            self.metrics.metrics.sent(out.len() - before);
        }
        if let Some(revision) = self.initial_end.take() {
            self.write_bookmark(&mut out, revision, BookmarkKind::InitialEventsEnd);
        }
        // Everything applied before the queue was found empty has been sent: events are queued before they count as applied.
        let mut applied = None;
        loop {
            if let Some(frame) = self.drain(&mut out, context) {
                return Poll::Ready(Some(frame));
            }
            if !out.is_empty() {
                return Poll::Ready(Some(out.freeze()));
            }
            if self.converting.is_some() {
                // It is asked for at once, so that whoever has the answer knows whom to wake.
                return self.poll_piece(context);
            }
            if self.watcher.is_none() || self.end.as_mut().poll(context).is_ready() {
                self.watcher = None;
                return Poll::Ready(None);
            }
            if let Some(revision) = applied.take()
                && revision > self.sent
            {
                self.write_bookmark(&mut out, revision, BookmarkKind::Progress);
                return Poll::Ready(Some(out.freeze()));
            }
            let Some(timer) = &mut self.bookmarks else {
                return Poll::Pending;
            };
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            timer.as_mut().reset(Instant::now() + BOOKMARKS);
            applied = Some(self.caches.applied());
        }
    }
}

// --- WatchForm ---

impl WatchForm {
    fn is_plain(&self) -> bool {
        self.form == ObjectForm::Whole
    }

    fn wire(&self) -> FrameFormat {
        if self.format == Format::Protobuf {
            FrameFormat::Protobuf
        } else {
            FrameFormat::Json
        }
    }

    fn write(&self, out: &mut BytesMut, word: &str, tree: &Value, ty: &ObjectType) {
        if self.format == Format::Protobuf {
            let encoded = ty.table().map_or(Ok(Vec::new()), |ty| protobuf::encode(tree, ty));
            let message = encoded.unwrap_or_else(|error| {
                let key = tree.at("metadata").text("name");
                tracing::error!(%key, %error, "stored object cannot be encoded as protobuf");
                Vec::new()
            });
            out.extend_from_slice(&protobuf::watch_event(word, &message));
            return;
        }
        out.extend_from_slice(format!("{{\"type\":\"{word}\",\"object\":").as_bytes());
        out.extend_from_slice(&encode::encode(tree));
        out.extend_from_slice(b"}\n");
    }
}
