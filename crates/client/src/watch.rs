//! Watches of collections.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    api::{ApiClient, ResponseStream},
    api_resource::with_query,
    error::ClientError,
};

/// How long to wait before another watch, after one that ended without an event: a server that ends each at once would be
/// asked without a pause.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// A watch of a collection.
pub(crate) struct ObjectWatch {
    stream: ResponseStream,
    has_events: bool,
}

/// An event of a watch.
#[derive(Deserialize)]
pub(crate) struct WatchEvent {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) object: Value,
}

// --- ObjectWatch ---

impl ObjectWatch {
    /// Starts a watch after `revision`.
    pub(crate) async fn start(
        api: &ApiClient,
        collection: &str,
        selectors: &[(&str, Option<String>)],
        revision: &str,
        accept: &str,
    ) -> Result<Self, ClientError> {
        let mut query = selectors.to_vec();
        query.push(("watch", Some("true".to_owned())));
        query.push(("resourceVersion", Some(revision.to_owned())));
        let stream = api.stream(&with_query(collection, &query), accept).await?;
        Ok(Self {
            stream,
            has_events: false,
        })
    }

    /// Returns the next event, or `None` when the server ends the watch; servers end watches after some minutes.
    pub(crate) async fn next(&mut self) -> Result<Option<WatchEvent>, ClientError> {
        loop {
            let Some(line) = self.stream.line().await? else {
                if !self.has_events {
                    sleep(RESTART_DELAY).await;
                }
                return Ok(None);
            };
            if line.is_empty() {
                continue;
            }
            let event: WatchEvent = k3_decode::from_slice(&line).map_err(|error| {
                ClientError::new(format!("the server sent an invalid watch event: {error}"))
            })?;
            match event.kind.as_str() {
                "ERROR" => return Err(ClientError::server(event.object, None)),
                "BOOKMARK" => {}
                _ => {
                    self.has_events = true;
                    return Ok(Some(event));
                }
            }
        }
    }
}

// upstream: staging/src/k8s.io/client-go/tools/watch/until.go UntilWithSync
/// Waits until `condition` returns a value, and returns it. `condition` is evaluated for each state of the object, with `None`
/// when the object does not exist.
pub(crate) async fn wait_until<T>(
    api: &ApiClient,
    collection: &str,
    name: &str,
    mut condition: impl FnMut(Option<&Value>) -> Result<Option<T>, ClientError>,
) -> Result<T, ClientError> {
    let selectors = [("fieldSelector", Some(format!("metadata.name={name}")))];
    loop {
        let list = api.get(&with_query(collection, &selectors)).await?;
        if let Some(value) = condition(list["items"].get(0))? {
            return Ok(value);
        }
        let revision = list["metadata"]["resourceVersion"].as_str().ok_or_else(|| {
            ClientError::new(format!(
                "the server sent an invalid response to {collection}: a list without resourceVersion"
            ))
        })?;
        let mut watch = ObjectWatch::start(api, collection, &selectors, revision, crate::api::JSON).await?;
        loop {
            match watch.next().await {
                Ok(Some(event)) => {
                    let object = (event.kind != "DELETED").then_some(&event.object);
                    if let Some(value) = condition(object)? {
                        return Ok(value);
                    }
                }
                Ok(None) => break,
                // The revision was compacted: list again.
                Err(failed) if failed.http_code() == Some(410) => break,
                Err(failed) => return Err(failed),
            }
        }
    }
}

/// Returns a `List` in kubectl's format.
pub(crate) fn new_list(items: Vec<Value>) -> Value {
    let mut list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}});
    list["items"] = Value::Array(items);
    list
}
