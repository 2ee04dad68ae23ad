//! Watch cache events: one change of one object, and its encoded frames.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use k3_api::{kinds::Kind, protobuf};
use k3_storage::Revision;

use super::CachedObject;

/// A change: from one state to the next. One of the two may be missing, not both.
pub(crate) struct WatchCacheEvent {
    /// The commit that made it.
    pub revision: Revision,
    /// The state before; `None` if the object was created.
    pub before: Option<Arc<CachedObject>>,
    /// The state after; `None` if the object was deleted.
    pub after: Option<Arc<CachedObject>>,
}

/// The type of an event as seen by a watcher, depending on its selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

/// How frames are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameFormat {
    Json,
    Protobuf,
}

/// An event on its way to watchers. The frames live as long as it is in some queue, not as long as the event is kept.
pub(crate) struct EventDelivery {
    pub event: Arc<WatchCacheEvent>,
    frames: [OnceLock<Bytes>; 6],
}

// --- WatchCacheEvent ---

impl WatchCacheEvent {
    /// The newer state of the object, or the last one if it was deleted.
    pub(crate) fn object(&self) -> &Arc<CachedObject> {
        self.after
            .as_ref()
            .or(self.before.as_ref())
            .expect("an event has a state before or after")
    }

    /// The object that a watcher receives: for a deletion, the last state.
    pub(crate) fn shown(&self, as_type: EventType) -> &Arc<CachedObject> {
        match (as_type, &self.before) {
            (EventType::Deleted, Some(before)) => before,
            _ => self.object(),
        }
    }
}

// --- EventType ---

impl EventType {
    /// The word on the wire.
    pub(crate) fn word(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        }
    }
}

// --- EventDelivery ---

impl EventDelivery {
    pub(crate) fn new(event: Arc<WatchCacheEvent>) -> Self {
        EventDelivery {
            event,
            frames: Default::default(),
        }
    }

    /// The frame of the event, written by the first watcher that wants it so.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/caching_object.go CacheEncode
    pub(crate) fn frame(&self, as_type: EventType, wire: FrameFormat, kind: &Kind) -> Bytes {
        let position = as_type as usize * 2 + wire as usize;
        let frame = self.frames[position].get_or_init(|| {
            let object = self.event.shown(as_type);
            frame(as_type, object, self.event.revision, wire, kind)
        });
        frame.clone()
    }
}

/// Writes a frame of an object as it is after a commit.
pub(crate) fn frame(
    as_type: EventType,
    object: &CachedObject,
    revision: Revision,
    wire: FrameFormat,
    kind: &Kind,
) -> Bytes {
    match wire {
        FrameFormat::Json => {
            let mut frame = Vec::with_capacity(object.len() + 80);
            frame.extend_from_slice(b"{\"type\":\"");
            frame.extend_from_slice(as_type.word().as_bytes());
            frame.extend_from_slice(b"\",\"object\":");
            object.write_at(&mut frame, revision);
            frame.extend_from_slice(b"}\n");
            frame.into()
        }
        FrameFormat::Protobuf => {
            let message = match kind.ty.table() {
                Some(ty) => protobuf::encode(&object.tree_at(revision), ty).unwrap_or_else(|error| {
                    tracing::error!(key = %object.key, %error, "stored object cannot be encoded as protobuf");
                    Vec::new()
                }),
                // Protobuf is not served for custom objects.
                None => Vec::new(),
            };
            protobuf::watch_event(as_type.word(), &message).into()
        }
    }
}
