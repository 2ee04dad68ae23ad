//! Bytes become objects.

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
    lines::{Kind, Line},
    list_watch::{ListWatchError, WatchEvent},
    options::Transform,
    pieces::Pieces,
};
use crate::object::{MetadataOnly, Object, SlimObject};

/// An object of which only its reader knows the type. What does not depend on that is compiled once, not for each type.
pub(super) type Unknown = dyn Any + Send + Sync;

/// Reads the objects of an informer.
#[derive(Clone)]
pub(super) struct Decoder {
    read: Read,
    count: Arc<AtomicU64>,
}

type Read = Arc<dyn Fn(&[u8]) -> Result<Arc<Unknown>, serde_json::Error> + Send + Sync>;

/// An event of a watch.
#[derive(Debug)]
pub(super) enum DecodedEvent {
    Applied(Arc<Unknown>),
    Deleted(Arc<Unknown>),
    Bookmark {
        version: String,
        /// Whether everything that was there at the beginning has been told.
        ends_list: bool,
    },
    /// An object that cannot be read.
    Unreadable(WatchEvent<Unknown>),
}

/// Of a bookmark.
#[derive(Deserialize)]
struct Mark {
    metadata: MarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

/// The annotation of the bookmark after the last object that was there at the beginning.
const END_OF_LIST: &str = "k8s.io/initial-events-end";

// --- Decoder ---

impl Decoder {
    /// Reads objects of a type, and counts them.
    pub(super) fn new<T: Object + DeserializeOwned>(
        transform: Option<Transform<T>>,
        count: Arc<AtomicU64>,
    ) -> Self {
        let read = move |bytes: &[u8]| -> Result<Arc<Unknown>, serde_json::Error> {
            let mut object: T = k3_decode::from_slice(bytes)?;
            if let Some(transform) = &transform {
                transform(&mut object);
            }
            Ok(Arc::new(object))
        };
        Decoder {
            read: Arc::new(read),
            count,
        }
    }

    /// The items of a list: the objects together, then those that cannot be read.
    pub(super) fn items(&self, items: &Pieces) -> Result<Vec<WatchEvent<Unknown>>, ListWatchError> {
        let mut objects = Vec::with_capacity(items.len());
        let mut unreadable = Vec::new();
        for item in items.iter() {
            match self.object(item)? {
                Ok(object) => objects.push(object),
                Err(event) => unreadable.push(event),
            }
        }
        let mut events = vec![WatchEvent::Listed(objects)];
        events.append(&mut unreadable);
        Ok(events)
    }

    /// The events of a watch, as far as they can be told, and why not further.
    pub(super) fn lines(&self, lines: &Pieces) -> (Vec<DecodedEvent>, Option<ListWatchError>) {
        let mut told = Vec::with_capacity(lines.len());
        for line in lines.iter().filter(|line| !line.trim_ascii().is_empty()) {
            match self.line(line) {
                Ok(event) => told.push(event),
                Err(trouble) => return (told, Some(trouble)),
            }
        }
        (told, None)
    }

    fn line(&self, line: &[u8]) -> Result<DecodedEvent, ListWatchError> {
        let line = match Line::read(line) {
            Ok(line) => line,
            Err(error) => {
                return Err(status(line).map_or_else(|| unexpected(&error), |status| refusal(&status, None)));
            }
        };
        let told = match line.kind {
            Kind::Added | Kind::Modified => self.object(line.object)?.map(DecodedEvent::Applied),
            Kind::Deleted => self.object(line.object)?.map(DecodedEvent::Deleted),
            Kind::Bookmark => {
                let mark: Mark = k3_decode::from_slice(line.object).map_err(|error| unexpected(&error))?;
                Ok(DecodedEvent::Bookmark {
                    ends_list: mark.metadata.annotations.contains_key(END_OF_LIST),
                    version: mark.metadata.resource_version,
                })
            }
            Kind::Error => {
                let status: Status =
                    k3_decode::from_slice(line.object).map_err(|error| unexpected(&error))?;
                return Err(refusal(&status, None));
            }
        };
        Ok(told.unwrap_or_else(DecodedEvent::Unreadable))
    }

    /// An object; or, if it cannot be read, what can be said of it.
    fn object(&self, bytes: &[u8]) -> Result<Result<Arc<Unknown>, WatchEvent<Unknown>>, ListWatchError> {
        self.count.fetch_add(1, Ordering::Relaxed);
        match (self.read)(bytes) {
            Ok(object) => Ok(Ok(object)),
            Err(error) => {
                // Torn, or no object at all: then it is not the object's fault.
                let known: SlimObject<MetadataOnly> =
                    k3_decode::from_slice(bytes).map_err(|error| unexpected(&error))?;
                Ok(Err(WatchEvent::Unreadable {
                    key: known.key(),
                    version: known.metadata.resource_version,
                    error: error.to_string(),
                }))
            }
        }
    }
}

/// An event with the objects as what they are.
pub(super) fn known<T: Object>(event: WatchEvent<Unknown>) -> WatchEvent<T> {
    let object = |object: Arc<Unknown>| object.downcast().expect("the decoder reads this type");
    match event {
        WatchEvent::Restarted => WatchEvent::Restarted,
        WatchEvent::Listed(objects) => WatchEvent::Listed(objects.into_iter().map(object).collect()),
        WatchEvent::Complete { version } => WatchEvent::Complete { version },
        WatchEvent::Applied(applied) => WatchEvent::Applied(object(applied)),
        WatchEvent::Deleted(deleted) => WatchEvent::Deleted(object(deleted)),
        WatchEvent::Reached { version } => WatchEvent::Reached { version },
        WatchEvent::Unreadable { key, version, error } => WatchEvent::Unreadable { key, version, error },
    }
}

/// What a server says when it says no.
pub(super) fn status(body: &[u8]) -> Option<Status> {
    let status: Status = k3_decode::from_slice(body).ok()?;
    (status.code != 0).then_some(status)
}

/// What to make of it.
pub(super) fn refusal(status: &Status, retry_after: Option<std::time::Duration>) -> ListWatchError {
    let too_large = status.details.iter().flat_map(|details| &details.causes);
    let is_ahead = too_large
        .into_iter()
        .any(|cause| cause.reason == "ResourceVersionTooLarge");
    // A server that is behind what was seen has been put back: only a list tells what it has.
    if status.code == 410 || is_ahead {
        return ListWatchError::Expired(status.message.clone());
    }
    let seconds = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    let said = (seconds > 0).then(|| std::time::Duration::from_secs(seconds.into()));
    ListWatchError::Refused {
        code: status.code,
        message: status.message.clone(),
        retry_after: retry_after.or(said),
    }
}

fn unexpected(error: &serde_json::Error) -> ListWatchError {
    ListWatchError::Broken(format!("the server's answer is not understood: {error}"))
}
