//! The attributes of an event, and its representations in both APIs.

use k8s_openapi::{
    api::{
        core::v1::{Event as CoreEvent, EventSource, ObjectReference},
        events::v1::{Event as EventsV1Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
    jiff::Timestamp,
};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Information only.
    Normal,
    /// A problem that users may have to act on.
    Warning,
}

/// The API that events are written with. Clients can read the same objects with either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EventApi {
    /// `events.k8s.io/v1`, with series, as new controllers use it.
    #[default]
    Events,
    /// `v1`, with source and count, as the built-in controllers use it.
    Core,
}

/// The attributes of a recorded event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EventAttributes {
    pub(super) style: EventApi,
    pub(super) component: String,
    /// The host for [`EventApi::Core`], the reporting instance for [`EventApi::Events`].
    pub(super) instance: String,
    pub(super) regarding: ObjectReference,
    pub(super) related: Option<ObjectReference>,
    pub(super) kind: EventType,
    pub(super) reason: String,
    pub(super) action: String,
    pub(super) note: String,
    pub(super) at: Timestamp,
}

/// The name, the first occurrence and the count of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventCount {
    pub(super) name: String,
    pub(super) first: Timestamp,
    pub(super) times: i32,
}

/// The limits of API validation in bytes.
// upstream: pkg/apis/core/validation/events.go ValidateEventCreate
const MAX_NOTE: usize = 1024;
const MAX_WORD: usize = 128;

// --- EventType ---

impl EventType {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

// --- EventAttributes ---

impl EventAttributes {
    /// Events about cluster-scoped objects are in the namespace `default`.
    pub(super) fn namespace(&self) -> &str {
        let own = self.regarding.namespace.as_deref().filter(|own| !own.is_empty());
        own.unwrap_or("default")
    }

    /// Source and object: the key of the rate limit.
    // upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go getSpamKey
    pub(super) fn source_key(&self) -> Vec<String> {
        let object = &self.regarding;
        let parts = [
            &object.kind,
            &object.namespace,
            &object.name,
            &object.uid,
            &object.api_version,
        ];
        let object = parts.into_iter().map(|part| part.clone().unwrap_or_default());
        let source = [
            self.component.clone(),
            self.instance.clone(),
            self.kind.as_str().to_owned(),
        ];
        source.into_iter().chain(object).collect()
    }

    /// Source, object and reason: the key of similar events.
    // upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go EventAggregatorByReasonFunc
    pub(super) fn similar_key(&self) -> Vec<String> {
        let mut key = self.source_key();
        key.extend([self.reason.clone(), format!("{:?}", self.style)]);
        key
    }

    /// The key of repetitions of the same event.
    // upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go getEventKey
    pub(super) fn same_key(&self) -> Vec<String> {
        let mut key = self.similar_key();
        let field = self.regarding.field_path.clone().unwrap_or_default();
        let related = self.related.as_ref().map(|related| format!("{related:?}"));
        key.extend([
            field,
            self.note.clone(),
            self.action.clone(),
            related.unwrap_or_default(),
        ]);
        key
    }

    fn metadata(&self, count: &EventCount) -> ObjectMeta {
        ObjectMeta {
            name: Some(count.name.clone()),
            namespace: Some(self.namespace().to_owned()),
            ..ObjectMeta::default()
        }
    }

    /// The event in `v1`.
    pub(super) fn core(&self, count: &EventCount) -> CoreEvent {
        let text = |text: &String| (!text.is_empty()).then(|| text.clone());
        CoreEvent {
            metadata: self.metadata(count),
            involved_object: self.regarding.clone(),
            related: self.related.clone(),
            reason: Some(self.reason.clone()),
            message: Some(self.note.clone()),
            source: Some(EventSource {
                component: Some(self.component.clone()),
                host: text(&self.instance),
            }),
            first_timestamp: Some(Time(count.first)),
            last_timestamp: Some(Time(self.at)),
            count: Some(count.times),
            type_: Some(self.kind.as_str().to_owned()),
            // client-go sends the instance even if it is empty.
            reporting_component: Some(self.component.clone()),
            reporting_instance: Some(self.instance.clone()),
            ..CoreEvent::default()
        }
    }

    /// The event in `events.k8s.io/v1`.
    pub(super) fn events_v1(&self, count: &EventCount) -> EventsV1Event {
        let series = (count.times > 1).then_some(EventSeries {
            count: count.times,
            last_observed_time: MicroTime(self.at),
        });
        EventsV1Event {
            metadata: self.metadata(count),
            event_time: Some(MicroTime(count.first)),
            series,
            reporting_controller: Some(self.component.clone()),
            reporting_instance: Some(cut(&self.instance, MAX_WORD).to_owned()),
            action: Some(cut(&self.action, MAX_WORD).to_owned()),
            reason: Some(cut(&self.reason, MAX_WORD).to_owned()),
            regarding: Some(self.regarding.clone()),
            related: self.related.clone(),
            note: Some(cut(&self.note, MAX_NOTE).to_owned()),
            type_: Some(self.kind.as_str().to_owned()),
            ..EventsV1Event::default()
        }
    }

    /// The patch of an existing event.
    pub(super) fn patch(&self, count: &EventCount) -> Value {
        match self.style {
            // The message too: that of combined events is the latest one.
            EventApi::Core => json!({
                "count": count.times,
                "lastTimestamp": Time(self.at),
                "message": self.note,
            }),
            EventApi::Events => json!({
                "series": { "count": count.times, "lastObservedTime": MicroTime(self.at) },
            }),
        }
    }
}

/// The first `max` bytes of a text, or fewer so that no character is split.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
