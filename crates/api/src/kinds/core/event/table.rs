//! Table row of events.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{
    component,
    conversion::{field, text},
};
use crate::{
    strategy::{Column, Row, Tree, age},
    time::Time,
};

pub(super) const CORE_COLUMNS: &[Column] = &[
    Column::field("Last Seen", "lastTimestamp"),
    Column::field("Type", "type"),
    Column::field("Reason", "reason"),
    Column::field("Object", "involvedObject"),
    Column::field("Subobject", "involvedObject.fieldPath").wide(),
    Column::field("Source", "source").wide(),
    Column::field("Message", "message"),
    Column::field("First Seen", "firstTimestamp").wide(),
    Column::field("Count", "count").wide(),
    Column::name().wide(),
];

/// The same columns, with the field names and descriptions of `events.k8s.io`.
pub(super) const EVENTS_COLUMNS: &[Column] = &[
    Column::text(
        "Last Seen",
        "The time at which the most recent occurrence of this event was recorded.",
    ),
    Column::text(
        "Type",
        "Type of this event (Normal, Warning), new types could be added in the future",
    ),
    Column::text(
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the transition into the \
         object's current status.",
    ),
    Column::text("Object", "The object that this event is about."),
    Column::field("Subobject", "regarding.fieldPath").wide(),
    Column::text(
        "Source",
        "The component reporting this event. Should be a short machine understandable string.",
    )
    .wide(),
    Column::text(
        "Message",
        "A human-readable description of the status of this operation.",
    ),
    Column::text(
        "First Seen",
        "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
    )
    .wide(),
    Column::text("Count", "The number of times this event has occurred.").wide(),
    Column::name().wide(),
];

// upstream: pkg/printers/internalversion/printers.go printEvent
pub(super) fn print_event(object: &Value, now: Time) -> Row {
    let seen = |time: &Value| age(time.as_str().unwrap_or_default(), now);
    let first = match field(object, "firstTimestamp") {
        Value::Null => seen(object.at("eventTime")),
        time => seen(time),
    };
    let mut last = match field(object, "lastTimestamp") {
        Value::Null => first.clone(),
        time => seen(time),
    };
    let mut count = field(object, "count").as_i64().unwrap_or_default();
    let series = object.at("series");
    if !series.is_null() {
        last = seen(series.at("lastObservedTime"));
        count = series.int_or_zero("count");
    } else if count == 0 {
        count = 1;
    }
    let about = field(object, "involvedObject");
    let mut target = about.text("kind").to_lowercase();
    if !about.text("name").is_empty() {
        write!(target, "/{}", about.text("name")).expect("writing to a string succeeds");
    }
    let host = match field(object, "source").text("host") {
        "" => object.text("reportingInstance"),
        host => host,
    };
    let mut source = component(object).to_owned();
    if !host.is_empty() {
        write!(source, ", {host}").expect("writing to a string succeeds");
    }
    Row::new(vec![
        last,
        json!(object.text("type")),
        json!(object.text("reason")),
        json!(target),
        json!(about.text("fieldPath")),
        json!(source),
        json!(text(object, "message").trim()),
        first,
        json!(count),
        json!(object.at("metadata").text("name")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_equal_in_both_groups() {
        let now = Time::from_unix(1_577_836_900, 0);
        let old = json!({
            "metadata": {"name": "x"}, "type": "Normal", "reason": "R", "message": " m\n", "count": 3,
            "involvedObject": {"kind": "Pod", "name": "p"}, "firstTimestamp": "2020-01-01T00:00:00Z",
            "lastTimestamp": "2020-01-01T00:01:00Z", "source": {"component": "c", "host": "h"},
        });
        let want = json!(["40s", "Normal", "R", "pod/p", "", "c, h", "m", "100s", 3, "x"]);
        assert_eq!(json!(print_event(&old, now).cells), want);
        let new = json!({
            "metadata": {"name": "x"}, "type": "Normal", "reason": "R", "note": "m",
            "eventTime": "2020-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "h",
            "regarding": {"kind": "Pod", "name": "p"},
            "series": {"count": 3, "lastObservedTime": "2020-01-01T00:01:00.000000Z"},
        });
        assert_eq!(json!(print_event(&new, now).cells), want);
    }
}
