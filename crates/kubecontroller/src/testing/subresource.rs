//! Subresources other than `status`: `binding`, `eviction`, `scale`, `approval` and `finalize`.

use http::StatusCode;
use kube::core::Status;
use serde_json::{Value, json};

use super::{
    cluster::FakeCluster,
    http::status_json,
    status,
    writes::{DeleteOptions, ObjectWrite},
};
use crate::Key;

/// Serves a request for a subresource.
pub(super) fn perform(
    cluster: &mut FakeCluster,
    verb: &str,
    write: &ObjectWrite<'_>,
    body: &Value,
) -> Result<(StatusCode, Value), Box<Status>> {
    let target = write.target;
    let name = target.name.clone().unwrap_or_default();
    let key = Key::new(&target.namespace, &name);
    let old = cluster
        .get(&target.id, &key)
        .ok_or_else(|| status::not_found(&target.id, &name))?;
    let created = Ok((
        StatusCode::CREATED,
        status_json(&Status::success().with_code(201)),
    ));
    match (target.subresource.as_deref().unwrap_or_default(), verb) {
        ("binding", "create") => {
            let node = old["spec"]["nodeName"].as_str().unwrap_or_default();
            if !node.is_empty() {
                let why = format!("pod {name} is already assigned to node {node:?}");
                return Err(status::conflict(&target.id, &name, &why));
            }
            let mut object = (*old).clone();
            object["spec"]["nodeName"] = body["target"]["name"].clone();
            let scheduled = json!({"type": "PodScheduled", "status": "True"});
            match object["status"]["conditions"].as_array_mut() {
                Some(conditions) => {
                    conditions.retain(|condition| condition["type"] != "PodScheduled");
                    conditions.push(scheduled);
                }
                None => object["status"]["conditions"] = json!([scheduled]),
            }
            cluster.store(&target.id, object);
            created
        }
        ("eviction", "create") => {
            let how = DeleteOptions {
                grace: body["deleteOptions"]["gracePeriodSeconds"].as_i64(),
                ..DeleteOptions::default()
            };
            write.delete(cluster, &key, &how)?;
            created
        }
        ("scale", "get") => Ok((StatusCode::OK, scale(&old))),
        ("scale", "update" | "patch") => {
            let mut object = (*old).clone();
            object["spec"]["replicas"] = body["spec"]["replicas"].clone();
            let stored = write.change(cluster, &old, object)?;
            Ok((StatusCode::OK, scale(&stored)))
        }
        ("approval", "update") => {
            let version = &body["metadata"]["resourceVersion"];
            if !version.is_null() && *version != old["metadata"]["resourceVersion"] {
                let why = "the object has been modified; please apply your changes to the latest version";
                return Err(status::conflict(&target.id, &name, why));
            }
            let mut object = (*old).clone();
            object["status"]["conditions"] = body["status"]["conditions"].clone();
            Ok((StatusCode::OK, (*cluster.store(&target.id, object)).clone()))
        }
        ("finalize", "update") => {
            let mut object = (*old).clone();
            object["spec"] = body["spec"].clone();
            let is_empty = object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
            if is_empty && object["metadata"].get("deletionTimestamp").is_some() {
                cluster.remove(&target.id, &key);
                return Ok((StatusCode::OK, object));
            }
            Ok((StatusCode::OK, (*cluster.store(&target.id, object)).clone()))
        }
        _ => Err(status::coded(404)),
    }
}

fn scale(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": object["spec"]["replicas"].as_i64().unwrap_or_default()},
        "status": {
            "replicas": object["status"]["replicas"].as_i64().unwrap_or_default(),
            "selector": selector(&object["spec"]["selector"]),
        },
    })
}

/// The `matchLabels` of a selector as a string. Expressions are omitted.
fn selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels").unwrap_or(selector);
    let pairs = labels.as_object().into_iter().flatten();
    let pairs = pairs.filter_map(|(label, value)| Some(format!("{label}={}", value.as_str()?)));
    pairs.collect::<Vec<_>>().join(",")
}
