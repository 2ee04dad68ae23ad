//! Decodes list items and watch events.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kube::core::Status;
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    chunk_buffer::ChunkBuffer,
    list_watch::{ListWatchError, WatchEvent},
    options::Transform,
    watch_lines::{WatchEventType, WatchLine},
};
use crate::object::{MetadataOnly, Object, SlimObject};

/// An object whose type only its decoder and [`downcast_event`] know. It keeps the list and watch code free of type
/// parameters, so that this code is compiled once and not once per kind.
pub(super) type ErasedObject = dyn Any + Send + Sync;

/// Decodes the objects of an informer.
#[derive(Clone)]
pub(super) struct Decoder {
    decode: DecodeFn,
    count: Arc<AtomicU64>,
}

type DecodeFn = Arc<dyn Fn(&[u8]) -> Result<Arc<ErasedObject>, serde_json::Error> + Send + Sync>;

/// A decoded event of a watch.
#[derive(Debug)]
pub(super) enum DecodedEvent {
    Applied(Arc<ErasedObject>),
    Deleted(Arc<ErasedObject>),
    Bookmark {
        version: String,
        /// Whether this is the bookmark that ends the initial events of a streaming list.
        ends_list: bool,
    },
    /// A [`WatchEvent::Undecodable`].
    Undecodable(WatchEvent<ErasedObject>),
}

#[derive(Deserialize)]
struct BookmarkObject {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

/// Marks the bookmark that ends the initial events (`metav1.InitialEventsAnnotationKey`).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

// --- Decoder ---

impl Decoder {
    /// A decoder for objects of type `T` that counts what it decodes.
    pub(super) fn new<T: Object + DeserializeOwned>(
        transform: Option<Transform<T>>,
        count: Arc<AtomicU64>,
    ) -> Self {
        let decode = move |bytes: &[u8]| -> Result<Arc<ErasedObject>, serde_json::Error> {
            let mut object: T = k3_decode::from_slice(bytes)?;
            if let Some(transform) = &transform {
                transform(&mut object);
            }
            Ok(Arc::new(object))
        };
        Decoder {
            decode: Arc::new(decode),
            count,
        }
    }

    /// Decodes list items. Returns one event with all objects, then one for each item that does not decode.
    pub(super) fn decode_items(
        &self,
        items: &ChunkBuffer,
    ) -> Result<Vec<WatchEvent<ErasedObject>>, ListWatchError> {
        let mut objects = Vec::with_capacity(items.len());
        let mut undecodable = Vec::new();
        for item in items.iter() {
            match self.decode_object(item)? {
                Ok(object) => objects.push(object),
                Err(event) => undecodable.push(event),
            }
        }
        let mut events = vec![WatchEvent::ListItems(objects)];
        events.append(&mut undecodable);
        Ok(events)
    }

    /// Decodes watch events up to the first error. The events before it are valid and must still be applied.
    pub(super) fn decode_watch_events(
        &self,
        lines: &ChunkBuffer,
    ) -> (Vec<DecodedEvent>, Option<ListWatchError>) {
        let mut events = Vec::with_capacity(lines.len());
        for line in lines.iter().filter(|line| !line.trim_ascii().is_empty()) {
            match self.decode_watch_event(line) {
                Ok(event) => events.push(event),
                Err(error) => return (events, Some(error)),
            }
        }
        (events, None)
    }

    fn decode_watch_event(&self, line: &[u8]) -> Result<DecodedEvent, ListWatchError> {
        let line = match WatchLine::parse(line) {
            Ok(line) => line,
            Err(error) => {
                // Some servers send a bare Status in place of an ERROR event.
                return Err(parse_status(line)
                    .map_or_else(|| decode_error(&error), |status| status_error(&status, None)));
            }
        };
        let event = match line.event_type {
            WatchEventType::Added | WatchEventType::Modified => {
                self.decode_object(line.object)?.map(DecodedEvent::Applied)
            }
            WatchEventType::Deleted => self.decode_object(line.object)?.map(DecodedEvent::Deleted),
            WatchEventType::Bookmark => {
                let bookmark: BookmarkObject =
                    k3_decode::from_slice(line.object).map_err(|error| decode_error(&error))?;
                Ok(DecodedEvent::Bookmark {
                    ends_list: bookmark.metadata.annotations.contains_key(INITIAL_EVENTS_END),
                    version: bookmark.metadata.resource_version,
                })
            }
            WatchEventType::Error => {
                let status: Status =
                    k3_decode::from_slice(line.object).map_err(|error| decode_error(&error))?;
                return Err(status_error(&status, None));
            }
        };
        Ok(event.unwrap_or_else(DecodedEvent::Undecodable))
    }

    /// Decodes an object. The inner error is an object whose metadata is valid but which does not decode as the stored type;
    /// the outer error is input that is not a Kubernetes object at all, such as a truncated line.
    fn decode_object(
        &self,
        bytes: &[u8],
    ) -> Result<Result<Arc<ErasedObject>, WatchEvent<ErasedObject>>, ListWatchError> {
        self.count.fetch_add(1, Ordering::Relaxed);
        match (self.decode)(bytes) {
            Ok(object) => Ok(Ok(object)),
            Err(error) => {
                let metadata_only: SlimObject<MetadataOnly> =
                    k3_decode::from_slice(bytes).map_err(|error| decode_error(&error))?;
                Ok(Err(WatchEvent::Undecodable {
                    key: metadata_only.key(),
                    version: metadata_only.metadata.resource_version.into(),
                    error: error.to_string(),
                }))
            }
        }
    }
}

/// Restores the type of the objects of an event.
pub(super) fn downcast_event<T: Object>(event: WatchEvent<ErasedObject>) -> WatchEvent<T> {
    let downcast = |object: Arc<ErasedObject>| {
        object
            .downcast()
            .expect("the decoder of this informer decodes `T`")
    };
    match event {
        WatchEvent::ListStarted => WatchEvent::ListStarted,
        WatchEvent::ListItems(objects) => WatchEvent::ListItems(objects.into_iter().map(downcast).collect()),
        WatchEvent::ListComplete { version } => WatchEvent::ListComplete { version },
        WatchEvent::Applied(object) => WatchEvent::Applied(downcast(object)),
        WatchEvent::Deleted(object) => WatchEvent::Deleted(downcast(object)),
        WatchEvent::Bookmark { version } => WatchEvent::Bookmark { version },
        WatchEvent::Undecodable { key, version, error } => WatchEvent::Undecodable { key, version, error },
    }
}

/// The Status in the body of an error response, if there is one.
pub(super) fn parse_status(body: &[u8]) -> Option<Status> {
    let status: Status = k3_decode::from_slice(body).ok()?;
    (status.code != 0).then_some(status)
}

/// The error that a Status of the server stands for. `retry_after` is the header of the response.
pub(super) fn status_error(status: &Status, retry_after: Option<std::time::Duration>) -> ListWatchError {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    // upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go isTooLargeResourceVersionError
    // The server is behind the version of the watch: it was restored from a backup, so its state has to be listed again.
    let is_version_too_large = causes.any(|cause| cause.reason == "ResourceVersionTooLarge");
    if status.code == 410 || is_version_too_large {
        return ListWatchError::Expired(status.message.clone());
    }
    let seconds = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    let retry_after_details = (seconds > 0).then(|| std::time::Duration::from_secs(seconds.into()));
    ListWatchError::Rejected {
        code: status.code,
        message: status.message.clone(),
        retry_after: retry_after.or(retry_after_details),
    }
}

fn decode_error(error: &serde_json::Error) -> ListWatchError {
    ListWatchError::Failed(format!("failed to decode the response of the server: {error}"))
}
