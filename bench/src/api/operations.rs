//! One operation after the other, each on many objects.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    client::{APPLY, ApiRequest, ApiResponse, MERGE_PATCH},
    load::{ResponseHead, Session, is_object},
    objects::{self, MINE, ROUND},
    upstream::OperationRow,
};
use crate::{BenchError, choices::BenchEffort};

/// The namespace of the load.
pub(crate) const NAMESPACE: &str = "k3-bench";

/// How many of each. The sizes of lists are those upstream was measured with, also in a short run.
pub(crate) const CONFIG_MAPS: usize = 10_000;
pub(crate) const PODS: usize = 5_000;
const GETS: u32 = 50_000;
const APPLIES: u32 = 5_000;

type Rows = Vec<OperationRow>;

/// Makes a namespace with the service account that its pods need.
pub(crate) async fn make_namespace(session: &Session<'_>, name: &str) -> Result<(), BenchError> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    session
        .ask(ApiRequest::post("/api/v1/namespaces", &namespace), &[201])
        .await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
    session
        .ask(ApiRequest::post(accounts, &account), &[201, 409])
        .await?;
    Ok(())
}

pub(crate) fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

pub(crate) fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

pub(crate) fn config_map_name(index: usize) -> String {
    format!("cm-{index:06}")
}

pub(crate) fn pod_name(index: usize) -> String {
    format!("pod-{index:06}")
}

/// Creates what the other operations need.
pub(crate) async fn create(session: &Session<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let make = |index: usize| {
        let object = objects::config_map(&config_map_name(index), index, 0);
        ApiRequest::post(config_maps(NAMESPACE), &object)
    };
    let check = |index: usize, answer: &ApiResponse| is_object(answer, 201, &config_map_name(index));
    let measured = session
        .drive(CONFIG_MAPS, session.connections, make, check)
        .await?;
    rows.push(OperationRow::new("create ConfigMap", measured));

    let make = |index: usize| ApiRequest::post(pods(NAMESPACE), &objects::pod(&pod_name(index), index));
    let check = |index: usize, answer: &ApiResponse| is_object(answer, 201, &pod_name(index));
    let measured = session.drive(PODS, session.connections, make, check).await?;
    rows.push(OperationRow::new("create Pod", measured));
    Ok(())
}

/// Gets single objects, here and there.
pub(crate) async fn get(
    session: &Session<'_>,
    effort: BenchEffort,
    rows: &mut Rows,
) -> Result<(), BenchError> {
    let gets = effort.of(GETS) as usize;
    let make = |index| {
        ApiRequest::get(format!(
            "{}/{}",
            config_maps(NAMESPACE),
            config_map_name(scattered(index, CONFIG_MAPS))
        ))
    };
    let check = |index: usize, answer: &ApiResponse| {
        is_object(answer, 200, &config_map_name(scattered(index, CONFIG_MAPS)))
    };
    let measured = session.drive(gets, session.connections, make, check).await?;
    rows.push(OperationRow::new("get ConfigMap", measured));

    let make = |index| {
        ApiRequest::get(format!(
            "{}/{}",
            pods(NAMESPACE),
            pod_name(scattered(index, PODS))
        ))
    };
    let check =
        |index: usize, answer: &ApiResponse| is_object(answer, 200, &pod_name(scattered(index, PODS)));
    let measured = session.drive(gets, session.connections, make, check).await?;
    rows.push(OperationRow::new("get Pod", measured));
    Ok(())
}

/// Updates each `ConfigMap` at the version it has.
pub(crate) async fn update(session: &Session<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let versions = Arc::new(versions(session).await?);
    let make = move |index: usize| {
        let name = config_map_name(index);
        let mut object = objects::config_map(&name, index, 1);
        object["metadata"]["resourceVersion"] = versions.get(&name).cloned().into();
        ApiRequest::put(format!("{}/{name}", config_maps(NAMESPACE)), &object)
    };
    let check = |index: usize, answer: &ApiResponse| is_object(answer, 200, &config_map_name(index));
    let measured = session
        .drive(CONFIG_MAPS, session.connections, make, check)
        .await?;
    rows.push(OperationRow::new("update ConfigMap", measured));
    Ok(())
}

/// The resource version of each `ConfigMap`, by name.
async fn versions(session: &Session<'_>) -> Result<BTreeMap<String, String>, BenchError> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<ResponseHead>,
    }
    let call = ApiRequest::get(format!("{}?{MINE}", config_maps(NAMESPACE)));
    let answer = session.ask(call, &[200]).await?;
    let list: List = serde_json::from_slice(&answer.body)?;
    let versions = list
        .items
        .into_iter()
        .map(|item| (item.metadata.name, item.metadata.resource_version));
    Ok(versions.collect())
}

/// Reports each pod as running.
pub(crate) async fn patch(session: &Session<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let make = |index: usize| {
        let path = format!("{}/{}/status", pods(NAMESPACE), pod_name(index));
        ApiRequest::patch(path, MERGE_PATCH, &objects::running(index))
    };
    let check = |index: usize, answer: &ApiResponse| {
        is_object(answer, 200, &pod_name(index))?;
        is_value(answer, "/status/phase", "Running")
    };
    let measured = session.drive(PODS, session.connections, make, check).await?;
    rows.push(OperationRow::new("merge patch Pod status", measured));
    Ok(())
}

/// Applies configurations: first objects that are new, then a change in each.
pub(crate) async fn apply(
    session: &Session<'_>,
    effort: BenchEffort,
    rows: &mut Rows,
) -> Result<(), BenchError> {
    type Build = fn(&str, usize, usize) -> Value;
    let applies = effort.of(APPLIES) as usize;
    let deployments = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
    let kinds: [([&'static str; 2], String, Build); 2] = [
        (
            ["apply ConfigMap, new", "apply ConfigMap, change"],
            config_maps(NAMESPACE),
            objects::config_map,
        ),
        (
            ["apply Deployment, new", "apply Deployment, change"],
            deployments,
            objects::deployment,
        ),
    ];
    for (operations, collection, build) in kinds {
        for (round, operation) in operations.into_iter().enumerate() {
            let path = collection.clone();
            let make = move |index: usize| {
                let name = applied_name(index);
                let path = format!("{path}/{name}?fieldManager=k3-bench&force=true");
                ApiRequest::patch(path, APPLY, &build(&name, index, round))
            };
            let check = move |index: usize, answer: &ApiResponse| {
                let status = if round == 0 { 201 } else { 200 };
                is_object(answer, status, &applied_name(index))?;
                let annotation = format!("/metadata/annotations/{}", ROUND.replace('/', "~1"));
                is_value(answer, &annotation, &round.to_string())
            };
            let measured = session.drive(applies, session.connections, make, check).await?;
            rows.push(OperationRow::new(operation, measured));
        }
        let remove = move |index: usize| ApiRequest::delete(format!("{collection}/{}", applied_name(index)));
        session.prepare(applies, &[200, 202], remove).await?;
    }
    Ok(())
}

fn applied_name(index: usize) -> String {
    format!("applied-{index:06}")
}

/// Deletes what [`create`] made.
pub(crate) async fn delete(session: &Session<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let expect_deleted = |_, answer: &ApiResponse| answer.expect(&[200]);
    let make =
        |index: usize| ApiRequest::delete(format!("{}/{}", config_maps(NAMESPACE), config_map_name(index)));
    let measured = session
        .drive(CONFIG_MAPS, session.connections, make, expect_deleted)
        .await?;
    rows.push(OperationRow::new("delete ConfigMap", measured));

    let make = |index: usize| {
        ApiRequest::delete(format!(
            "{}/{}?gracePeriodSeconds=0",
            pods(NAMESPACE),
            pod_name(index)
        ))
    };
    let measured = session
        .drive(PODS, session.connections, make, expect_deleted)
        .await?;
    rows.push(OperationRow::new("delete Pod", measured));
    Ok(())
}

/// Whether a string of an answer is as expected.
fn is_value(answer: &ApiResponse, pointer: &str, expected: &str) -> Result<(), String> {
    let object: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    match object.pointer(pointer) {
        Some(Value::String(found)) if found == expected => Ok(()),
        found => Err(format!("{pointer} is {found:?} and not {expected}")),
    }
}

/// A number below `count`: neighbours end up far apart.
fn scattered(index: usize, count: usize) -> usize {
    /// Shares no divisor with the counts, so that every object has its turn.
    const STRIDE: usize = 7919;
    index.wrapping_mul(STRIDE) % count
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn gets_go_to_every_object() {
        for count in [CONFIG_MAPS, PODS] {
            let visited: BTreeSet<_> = (0..count).map(|index| scattered(index, count)).collect();
            assert_eq!(visited.len(), count);
        }
    }

    #[test]
    fn a_value_that_is_absent_or_other_is_not_taken() {
        let answer = ApiResponse {
            status: 200,
            body: r#"{"a":{"b/c":"1"}}"#.into(),
        };
        assert_eq!(is_value(&answer, "/a/b~1c", "1"), Ok(()));
        assert!(is_value(&answer, "/a/b~1c", "2").is_err());
        assert!(is_value(&answer, "/a/d", "1").is_err());
    }
}
