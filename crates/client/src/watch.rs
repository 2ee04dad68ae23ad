//! Objects as they change.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    api::{Api, Stream},
    failed::Failed,
    resource::with_query,
};

/// What happens to objects of a collection.
pub(crate) struct Watch {
    stream: Stream,
}

/// What happened to one.
#[derive(Deserialize)]
pub(crate) struct Happening {
    /// `ADDED`, `MODIFIED`, `DELETED`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) object: Value,
}

// --- Watch ---

impl Watch {
    /// What happens after a revision.
    pub(crate) async fn begin(
        api: &Api,
        collection: &str,
        selectors: &[(&str, Option<String>)],
        revision: &str,
        accept: &str,
    ) -> Result<Self, Failed> {
        let mut query = selectors.to_vec();
        query.push(("watch", Some("true".to_owned())));
        query.push(("resourceVersion", Some(revision.to_owned())));
        let stream = api.stream(&with_query(collection, &query), accept).await?;
        Ok(Self { stream })
    }

    /// The next; nothing when the server ends the watch, as it does after a while.
    pub(crate) async fn next(&mut self) -> Result<Option<Happening>, Failed> {
        loop {
            let Some(line) = self.stream.line().await? else {
                return Ok(None);
            };
            if line.is_empty() {
                continue;
            }
            let happening: Happening = k3_decode::from_slice(&line)
                .map_err(|error| Failed::new(format!("the server sent what makes no sense: {error}")))?;
            match happening.kind.as_str() {
                "ERROR" => return Err(Failed::server(happening.object, None)),
                "BOOKMARK" => {}
                _ => return Ok(Some(happening)),
            }
        }
    }
}

/// Waits until an object is as it should be: `is_so` is asked again whenever it changes, with nothing when it is not there.
/// The answer is what `is_so` gave.
pub(crate) async fn until<T>(
    api: &Api,
    collection: &str,
    name: &str,
    mut is_so: impl FnMut(Option<&Value>) -> Result<Option<T>, Failed>,
) -> Result<T, Failed> {
    let selectors = [("fieldSelector", Some(format!("metadata.name={name}")))];
    loop {
        let list = api.get(&with_query(collection, &selectors)).await?;
        if let Some(answer) = is_so(list["items"].get(0))? {
            return Ok(answer);
        }
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let mut watch = Watch::begin(api, collection, &selectors, revision, crate::api::JSON).await?;
        loop {
            match watch.next().await {
                Ok(Some(happening)) => {
                    let object = (happening.kind != "DELETED").then_some(&happening.object);
                    if let Some(answer) = is_so(object)? {
                        return Ok(answer);
                    }
                }
                Ok(None) => break,
                // What is asked for is forgotten: begin again.
                Err(failed) if failed.http_code() == Some(410) => break,
                Err(failed) => return Err(failed),
            }
        }
    }
}

/// A list of objects as kubectl prints one.
pub(crate) fn list_of(items: Vec<Value>) -> Value {
    let mut list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}});
    list["items"] = Value::Array(items);
    list
}
