//! The events of an object.

use serde_json::Value;

use super::sheet::DescriptionSheet;
use crate::{
    api_resource::{escape, with_query},
    commands::events::when,
    error::ClientError,
    session::CommandSession,
};

/// Adds the events of an object; none when the user lacks permission to list events.
pub(super) async fn describe(
    sheet: &mut DescriptionSheet,
    session: &CommandSession,
    object: &Value,
) -> Result<(), ClientError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or("default");
    let fields = format!(
        "involvedObject.name={},involvedObject.kind={}",
        text(&metadata["name"]),
        text(&object["kind"])
    );
    let path = format!("/api/v1/namespaces/{}/events", escape(namespace));
    let list = match session
        .api
        .get(&with_query(&path, &[("fieldSelector", Some(fields))]))
        .await
    {
        Err(failed) if failed.http_code() == Some(403) => return Ok(()),
        list => list?,
    };
    let uid = &metadata["uid"];
    let about = |event: &&Value| {
        let reference = &event["involvedObject"]["uid"];
        // The kubelet's events about its node carry the node's name in the uid field.
        reference.is_null() || reference == uid || *reference == metadata["name"]
    };
    let mut events: Vec<&Value> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(about)
        .collect();
    events.sort_by_key(|event| text(&event["lastTimestamp"]));
    let rows = events
        .into_iter()
        .map(|event| {
            let component = event["reportingComponent"]
                .as_str()
                .filter(|component| !component.is_empty());
            vec![
                text(&event["type"]),
                text(&event["reason"]),
                when(event),
                component.map_or_else(|| text(&event["source"]["component"]), str::to_owned),
                text(&event["message"]).trim().replace('\n', " "),
            ]
        })
        .collect::<Vec<_>>();
    sheet.group("Events", |inner| {
        if !rows.is_empty() {
            inner.rows(&["Type", "Reason", "Age", "From", "Message"], rows);
        }
    });
    Ok(())
}
