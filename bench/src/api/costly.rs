//! Single requests that are as costly as a client can make them: what each costs the server, and what ordinary clients feel of it.
//!
//! Promises: one such request runs at a time, and the CPU time of the whole server counts as its cost, with what ordinary clients cost
//! meanwhile; ordinary clients go on from the first to the last.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use hyper::Method;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

use super::{
    client::{APPLY, ApiRequest, Connection, Endpoint, JSON, MERGE_PATCH},
    hostile::ordinary,
    load::RequestTally,
    oversized::{self, Oversized},
    server::Server,
};
use crate::{
    BenchError,
    choices::BenchEffort,
    cpu::CpuMeter,
    latency::Percentiles,
    requirement::{Requirement, RequirementBound},
};

const ORDINARY: usize = 8;
/// The bytes of a patch.
const PATCH_BYTES: usize = 3 * 1024 * 1024 - 4096;
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// The kinds of a quick run.
const QUICK: [&str; 5] = ["ConfigMap", "Service", "Deployment", "Role", "NetworkPolicy"];
/// How many requests are listed, the costliest first.
const LISTED: usize = 15;

/// What one request cost.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CostlyRequest {
    label: String,
    status: u16,
    cpu_ms: u64,
    took_ms: u64,
    answer_bytes: usize,
}

/// What all of them cost.
#[derive(Serialize)]
pub(super) struct CostlyReport {
    requests: usize,
    ordinary: Percentiles,
    ordinary_requests: usize,
    worst: Vec<CostlyRequest>,
    largest_error: usize,
    #[serde(skip)]
    pub(super) requirements: Vec<Requirement>,
}

/// Sends every costly request, one after the other.
pub(super) async fn measure(server: &Server, effort: BenchEffort) -> Result<CostlyReport, BenchError> {
    let endpoint = Arc::new(server.endpoint.clone());
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for number in 0..ORDINARY {
        clients.spawn(ordinary(
            Arc::clone(&endpoint),
            format!("beside-{number}"),
            Duration::MAX,
            Arc::clone(&is_over),
        ));
    }
    let mut session = Session {
        connection: endpoint.connect().await?,
        endpoint: Arc::clone(&endpoint),
        meter: CpuMeter::new(Some(server.pid())),
        requests: Vec::new(),
    };
    super::say("lists and maps with ten thousand entries");
    session.send_oversized(effort).await?;
    super::say("patches of three mebibytes");
    session.send_patches().await?;
    is_over.store(true, Relaxed);
    let mut tally = RequestTally::default();
    while let Some(client) = clients.join_next().await {
        tally.append(client??);
    }
    Ok(report(session.requests, tally))
}

fn report(mut requests: Vec<CostlyRequest>, tally: RequestTally) -> CostlyReport {
    requests.sort_by_key(|request| std::cmp::Reverse(request.cpu_ms));
    let errors = requests.iter().filter(|request| request.status >= 400);
    let largest_error = errors
        .map(|request| request.answer_bytes)
        .max()
        .unwrap_or_default();
    let ordinary_requests = tally.latencies.count();
    let failed = tally.errors;
    if let Some(error) = &tally.first_error {
        eprintln!("the first error: {error}");
    }
    let ordinary = tally.latencies.percentiles();
    let worst = requests.first().map_or(0, |request| request.cpu_ms);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let requirements = vec![
        Requirement::new(
            "worst costly request, ms of CPU",
            RequirementBound::AtMost(300.0),
            Some(worst as f64),
        ),
        Requirement::new(
            "p99 of ordinary requests beside costly ones, ms",
            RequirementBound::AtMost(50.0),
            Some(ordinary.p99_us / 1000.0),
        ),
        Requirement::new(
            "largest answer with an error, KiB",
            RequirementBound::AtMost(256.0),
            Some(largest_error as f64 / 1024.0),
        ),
        Requirement::new(
            "ordinary requests beside costly ones that failed",
            RequirementBound::AtMost(0.0),
            Some(failed as f64),
        ),
        Requirement::new(
            "costly requests without an answer",
            RequirementBound::AtMost(0.0),
            Some(requests.iter().filter(|request| request.status == 0).count() as f64),
        ),
    ];
    let count = requests.len();
    requests.truncate(LISTED);
    CostlyReport {
        requests: count,
        ordinary,
        ordinary_requests,
        worst: requests,
        largest_error,
        requirements,
    }
}

// --- CostlyReport ---

impl CostlyReport {
    pub(super) fn print(&self) {
        println!(
            "{} costly requests beside {} ordinary ones: p50 {:.1} ms, p99 {:.1} ms; largest error {} bytes",
            self.requests,
            self.ordinary_requests,
            self.ordinary.p50_us / 1000.0,
            self.ordinary.p99_us / 1000.0,
            self.largest_error
        );
        for request in &self.worst {
            let CostlyRequest {
                label,
                status,
                cpu_ms,
                took_ms,
                answer_bytes,
            } = request;
            println!("{cpu_ms:>6} ms CPU {took_ms:>6} ms  {status}  {answer_bytes:>8} bytes  {label}");
        }
    }
}

/// One client that sends costly requests.
struct Session {
    connection: Connection,
    endpoint: Arc<Endpoint>,
    meter: CpuMeter,
    requests: Vec<CostlyRequest>,
}

// --- Session ---

impl Session {
    async fn send_oversized(&mut self, effort: BenchEffort) -> Result<(), BenchError> {
        let is_chosen = |kind: &str| effort == BenchEffort::Full || QUICK.contains(&kind);
        for path in self.documents().await? {
            let document = self.connection.call(ApiRequest::get(path)).await?;
            let document: Value = serde_json::from_slice(&document.body)?;
            let mut all = oversized::of_document(&document, is_chosen);
            // Pods are within many kinds: a quick run sends what is next to them only.
            if effort == BenchEffort::Quick {
                all.retain(|one| {
                    !one.label.contains("spec.template.spec.volumes[]") && !one.label.contains("ontainers[].")
                });
            }
            for one in all {
                self.send_both(one).await?;
            }
        }
        Ok(())
    }

    /// The paths of the documents of all groups.
    async fn documents(&mut self) -> Result<Vec<String>, BenchError> {
        let index = self.connection.call(ApiRequest::get("/openapi/v3")).await?;
        let index: Value = serde_json::from_slice(&index.body)?;
        let paths = index["paths"]
            .as_object()
            .ok_or("the index of OpenAPI v3 has no paths")?;
        let urls = paths
            .values()
            .filter_map(|path| path["serverRelativeURL"].as_str());
        Ok(urls.map(str::to_owned).collect())
    }

    /// As a dry run; and as it is, if the dry run was not refused.
    async fn send_both(&mut self, one: Oversized) -> Result<(), BenchError> {
        let Oversized { label, path, body } = one;
        let body = Bytes::from(body);
        let dry = ApiRequest::of(Method::POST, format!("{path}?dryRun=All"), JSON, body.clone());
        if self.send(format!("dry run: {label}"), dry).await? == 201 {
            let real = ApiRequest::of(Method::POST, path.clone(), JSON, body);
            self.send(label, real).await?;
            let object = format!("{path}/oversized?gracePeriodSeconds=0");
            self.connection.call(ApiRequest::delete(object)).await?;
        }
        Ok(())
    }

    async fn send_patches(&mut self) -> Result<(), BenchError> {
        let config_maps = "/api/v1/namespaces/default/configmaps";
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        let config_map = json!({"metadata": {"name": "patched"}, "data": {"a": "b"}});
        self.connection
            .call(ApiRequest::post(config_maps, &config_map))
            .await?
            .expect(&[201])?;
        let containers = json!([{"name": "c", "image": "i", "env": [{"name": "A", "value": "a"}]}]);
        let deployment = json!({"metadata": {"name": "patched"}, "spec": {
            "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}},
        }});
        self.connection
            .call(ApiRequest::post(deployments, &deployment))
            .await?
            .expect(&[201])?;
        for (collection, name, media, patch) in patches() {
            let collection = if collection == "configmaps" {
                config_maps
            } else {
                deployments
            };
            let patch = Bytes::from(patch);
            for query in ["dryRun=All", ""] {
                let manager = if media == APPLY {
                    "&fieldManager=hostile&force=true"
                } else {
                    ""
                };
                let path = format!("{collection}/patched?{query}{manager}");
                let label = format!("{name} ({media}) {query}");
                self.send(label, ApiRequest::of(Method::PATCH, path, media, patch.clone()))
                    .await?;
            }
        }
        Ok(())
    }

    /// Sends a request and notes what it cost. Gives the status; 0 if there was no answer.
    async fn send(&mut self, label: String, call: ApiRequest) -> Result<u16, BenchError> {
        let before = self.meter.read()?;
        let start = Instant::now();
        let answered = self.connection.call(call).await;
        let took = start.elapsed();
        let cpu = self.meter.read()?.since(before).server;
        let (status, answer_bytes) = match answered {
            Ok(answer) => (answer.status, answer.body.len()),
            Err(error) => {
                eprintln!("{label}: {error}");
                self.connection = self.endpoint.connect().await?;
                (0, 0)
            }
        };
        self.requests.push(CostlyRequest {
            label,
            status,
            cpu_ms: u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            answer_bytes,
        });
        Ok(status)
    }
}

/// As many parts as fit into a patch, with commas between them.
fn fill(part: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(PATCH_BYTES);
    for number in 0.. {
        let part = part(number);
        if text.len() + part.len() + 1 > PATCH_BYTES {
            break;
        }
        if number > 0 {
            text.push(',');
        }
        text.push_str(&part);
    }
    text
}

/// Ten thousand operations.
fn json_patch(operation: &str) -> String {
    let part = |number: usize| match operation {
        "test" => r#"{"op":"test","path":"/data/a","value":"b"}"#.to_owned(),
        "copy" => format!(r#"{{"op":"copy","from":"/data","path":"/data/c{number}"}}"#),
        _ => format!(
            r#"{{"op":"add","path":"/data/k{number}","value":"{}"}}"#,
            "v".repeat(260)
        ),
    };
    let parts: Vec<_> = (0..10_000).map(part).collect();
    format!("[{}]", parts.join(","))
}

/// Patches of every type: the resource, what it does, its media type, the patch.
fn patches() -> Vec<(&'static str, &'static str, &'static str, String)> {
    let keys = |value: &'static str| fill(move |number| format!(r#""k{number}":{value}"#));
    let env = || fill(|number| format!(r#"{{"name":"E{number}","value":"v"}}"#));
    let containers = || fill(|number| format!(r#"{{"name":"c{number}","image":"i"}}"#));
    let owners = || {
        fill(|number| format!(r#"{{"apiVersion":"v1","kind":"Node","name":"n{number}","uid":"u{number}"}}"#))
    };
    let in_container = |env: String| {
        format!(
            r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"c","image":"i","env":[{env}]}}]}}}}}}}}"#
        )
    };
    let in_pod = |containers: String| {
        format!(r#"{{"spec":{{"template":{{"spec":{{"containers":[{containers}]}}}}}}}}"#)
    };
    let deletions = fill(|number| format!(r#"{{"$patch":"delete","name":"E{number}"}}"#));
    let order = fill(|number| format!(r#"{{"name":"E{number}"}}"#));
    let applied = |kind: &str, version: &str, rest: String| {
        format!(r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"patched"}},{rest}}}"#)
    };
    let deployment = |containers: String| {
        format!(
            r#""spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{containers}]}}}}}}"#
        )
    };
    vec![
        ("configmaps", "add 10,000 values", JSON_PATCH, json_patch("add")),
        ("configmaps", "test 10,000 times", JSON_PATCH, json_patch("test")),
        ("configmaps", "copy 10,000 times", JSON_PATCH, json_patch("copy")),
        (
            "configmaps",
            "merge keys",
            MERGE_PATCH,
            format!(r#"{{"data":{{{}}}}}"#, keys(r#""v""#)),
        ),
        (
            "configmaps",
            "remove keys",
            MERGE_PATCH,
            format!(r#"{{"data":{{{}}}}}"#, keys("null")),
        ),
        (
            "configmaps",
            "merge owners",
            MERGE_PATCH,
            format!(r#"{{"metadata":{{"ownerReferences":[{}]}}}}"#, owners()),
        ),
        ("deployments", "merge variables", MERGE_PATCH, in_container(env())),
        (
            "configmaps",
            "merge keys",
            STRATEGIC,
            format!(r#"{{"data":{{{}}}}}"#, keys(r#""v""#)),
        ),
        (
            "configmaps",
            "merge owners",
            STRATEGIC,
            format!(r#"{{"metadata":{{"ownerReferences":[{}]}}}}"#, owners()),
        ),
        ("deployments", "merge variables", STRATEGIC, in_container(env())),
        ("deployments", "merge containers", STRATEGIC, in_pod(containers())),
        (
            "deployments",
            "delete variables",
            STRATEGIC,
            in_container(deletions),
        ),
        (
            "deployments",
            "order variables",
            STRATEGIC,
            format!(
                r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"c","$setElementOrder/env":[{order}]}}]}}}}}}}}"#
            ),
        ),
        (
            "configmaps",
            "apply keys",
            APPLY,
            applied("ConfigMap", "v1", format!(r#""data":{{{}}}"#, keys(r#""v""#))),
        ),
        (
            "deployments",
            "apply containers",
            APPLY,
            applied("Deployment", "apps/v1", deployment(containers())),
        ),
        (
            "deployments",
            "apply variables",
            APPLY,
            applied(
                "Deployment",
                "apps/v1",
                deployment(format!(r#"{{"name":"c","image":"i","env":[{}]}}"#, env())),
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_json_of_less_than_three_mebibytes() {
        for (_, name, media, patch) in patches() {
            assert!(serde_json::from_str::<Value>(&patch).is_ok(), "{name} ({media})");
            assert!(
                patch.len() <= 3 * 1024 * 1024,
                "{name} ({media}): {}",
                patch.len()
            );
        }
    }
}
