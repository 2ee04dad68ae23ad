//! What is event, and the objects it becomes.

use k8s_openapi::{
    api::{
        core::v1::{Event as CoreEvent, EventSource, ObjectReference},
        events::v1::{Event as NewEvent, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
    jiff::Timestamp,
};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

/// Whether an event is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// It is only event.
    Normal,
    /// Somebody may want to look.
    Warning,
}

/// Which of the two APIs for events is written. Readers see the same objects through either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EventApi {
    /// `events.k8s.io/v1`, with series: what new controllers write.
    #[default]
    Events,
    /// `v1`, with source and count: what upstream's built-in controllers write.
    Core,
}

/// Something that was event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EventAttributes {
    pub(super) style: EventApi,
    pub(super) component: String,
    /// The host in the one style, the instance in the other.
    pub(super) instance: String,
    pub(super) regarding: ObjectReference,
    pub(super) related: Option<ObjectReference>,
    pub(super) kind: EventType,
    pub(super) reason: String,
    pub(super) action: String,
    pub(super) note: String,
    pub(super) at: Timestamp,
}

/// How often, and since when under which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) name: String,
    pub(super) first: Timestamp,
    pub(super) times: i32,
}

/// The API refuses longer ones.
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
    /// Events of cluster-wide objects live in the default namespace.
    pub(super) fn namespace(&self) -> &str {
        let own = self.regarding.namespace.as_deref().filter(|own| !own.is_empty());
        own.unwrap_or("default")
    }

    /// Source and object: what is limited together.
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

    /// The same with the reason: what is similar.
    pub(super) fn similar_key(&self) -> Vec<String> {
        let mut key = self.source_key();
        key.extend([self.reason.clone(), format!("{:?}", self.style)]);
        key
    }

    /// The same with the text: what is the same told again.
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

    fn metadata(&self, count: &Count) -> ObjectMeta {
        ObjectMeta {
            name: Some(count.name.clone()),
            namespace: Some(self.namespace().to_owned()),
            ..ObjectMeta::default()
        }
    }

    /// The event in the older of the two APIs.
    pub(super) fn core(&self, count: &Count) -> CoreEvent {
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
            // Upstream's client sends these empty rather than not at all.
            reporting_component: Some(self.component.clone()),
            reporting_instance: Some(self.instance.clone()),
            ..CoreEvent::default()
        }
    }

    /// The event in the newer one.
    pub(super) fn newer(&self, count: &Count) -> NewEvent {
        let series = (count.times > 1).then_some(EventSeries {
            count: count.times,
            last_observed_time: MicroTime(self.at),
        });
        NewEvent {
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
            ..NewEvent::default()
        }
    }

    /// What changes in an event that is there already.
    pub(super) fn patch(&self, count: &Count) -> Value {
        match self.style {
            // The text too: that of combined events is the last one.
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

/// The beginning of a text, of so many bytes at most.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
