//! What happened to an object.

use serde_json::Value;

use super::sheet::Sheet;
use crate::{
    commands::events::when,
    failed::Failed,
    resource::{escape, with_query},
    session::Session,
};

/// Adds the events about an object. Whoever may not see them sees none.
pub(super) async fn describe(sheet: &mut Sheet, session: &Session, object: &Value) -> Result<(), Failed> {
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
        let named = &event["involvedObject"]["uid"];
        // Events about nodes carry the name in place of the uid.
        named.is_null() || named == uid || *named == metadata["name"]
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
            let from = event["reportingComponent"]
                .as_str()
                .filter(|from| !from.is_empty());
            vec![
                text(&event["type"]),
                text(&event["reason"]),
                when(event),
                from.map_or_else(|| text(&event["source"]["component"]), str::to_owned),
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
