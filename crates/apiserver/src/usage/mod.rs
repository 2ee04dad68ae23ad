//! Resource metrics of nodes and pods (`metrics.k8s.io`).
//!
//! ```text
//! path          parses request paths
//! summary       a node's summary of itself and its pods
//! node_metrics  NodeMetrics and PodMetrics objects
//! ```
//!
//! Promises: kubelets are called on request, and not again for some seconds; a kubelet that does not respond delays requests only
//! briefly, and is omitted with its pods.

mod node_metrics;
mod path;
mod summary;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use k3_api::{
    kinds::builtin,
    selector::{field, label},
    status::{GroupResource, Status},
    strategy::Tree,
    time::Time,
};
use k3_storage::Revision;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{self, Instant};

pub(crate) use self::path::{GROUP, UsageRequest, VERSION};
use self::summary::NodeSummary;
use crate::{
    cache::WatchCaches,
    outgoing::{NodeCertificateCheck, NodeConnectionInfoGetter, ProxyError},
    registry::Resource,
    request::Query,
};

/// How long a node's summary is cached.
const FRESH: Duration = Duration::from_secs(15);
/// How long a node may take to answer, and how much it may say.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST: usize = 16 << 20;

/// Asks nodes what they use, and remembers it for a while.
pub(crate) struct ResourceMetrics {
    caches: Arc<WatchCaches>,
    nodes: Arc<NodeConnectionInfoGetter>,
    /// The last summary of each node. Concurrent requests for the same node share a call.
    summaries: Mutex<HashMap<String, Arc<NodeSummarySlot>>>,
}

/// Single flight: held by the request that asks the node, while the others wait for its answer.
type NodeSummarySlot = tokio::sync::Mutex<Option<(Instant, Option<Arc<NodeSummary>>)>>;

/// Which objects are wanted.
struct UsageSelector {
    labels: label::Selector,
    fields: field::Selector,
}

/// Why there is no summary of a node.
#[derive(Debug, thiserror::Error)]
enum SummaryError {
    /// It cannot be called.
    #[error(transparent)]
    Node(#[from] Status),
    /// It does not answer.
    #[error(transparent)]
    Call(#[from] ProxyError),
    /// It answers with something else.
    #[error(transparent)]
    Content(#[from] serde_json::Error),
}

// --- ResourceMetrics ---

impl ResourceMetrics {
    pub(crate) fn new(caches: Arc<WatchCaches>, nodes: Arc<NodeConnectionInfoGetter>) -> Self {
        ResourceMetrics {
            caches,
            nodes,
            summaries: Mutex::default(),
        }
    }

    /// Answers with an object or a list.
    pub(crate) async fn answer(
        &self,
        asked: &UsageRequest<'_>,
        query: &Query,
        now: Time,
    ) -> Result<Value, Status> {
        let wanted = UsageSelector::read(query)?;
        match asked {
            UsageRequest::Nodes => {
                let nodes = self.find("Node", "", &wanted);
                let summaries = self.ask(names(&nodes)).await;
                let items = nodes.iter().filter_map(|node| {
                    node_metrics::node(node, summaries.get(node.at("metadata").text("name"))?, now)
                });
                Ok(list("NodeMetricsList", items))
            }
            UsageRequest::Node(name) => {
                let absent = || Status::not_found(GroupResource::new(GROUP, "nodes"), name);
                let node = self.get("Node", "", name).ok_or_else(absent)?;
                let summaries = self.ask([(*name).to_owned()].into()).await;
                summaries
                    .get(*name)
                    .and_then(|summaries| node_metrics::node(&node, summaries, now))
                    .ok_or_else(absent)
            }
            UsageRequest::Pods(namespace) => {
                let pods = self.find("Pod", namespace, &wanted);
                let summaries = self.ask(nodes_of(&pods)).await;
                let items = pods.iter().filter_map(|pod| shown_pod(pod, &summaries, now));
                Ok(list("PodMetricsList", items))
            }
            UsageRequest::Pod(namespace, name) => {
                let absent =
                    || Status::not_found(GroupResource::new(GROUP, "pods"), &format!("{namespace}/{name}"));
                let pod = self.get("Pod", namespace, name).ok_or_else(absent)?;
                let summaries = self.ask(nodes_of(std::slice::from_ref(&pod))).await;
                shown_pod(&pod, &summaries, now).ok_or_else(absent)
            }
        }
    }

    fn resource(&self, kind: &str) -> Resource {
        Resource::of(
            builtin().kind("", "v1", kind).expect("the kind is built in"),
            &self.caches,
        )
    }

    fn find(&self, kind: &str, namespace: &str, wanted: &UsageSelector) -> Vec<Value> {
        let resource = self.resource(kind);
        let snapshot = resource.cache.snapshot(Revision::ZERO);
        let prefix = resource.under(namespace);
        let objects = snapshot.under(&prefix, None).map(|object| object.tree());
        objects.filter(|object| wanted.matches(object)).collect()
    }

    fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = self.resource(kind);
        let key = resource.key(namespace, name).ok()?;
        Some(resource.cache.get(&key)?.tree())
    }

    /// The summaries of these nodes. Nodes without one are omitted.
    async fn ask(&self, names: BTreeSet<String>) -> HashMap<String, Arc<NodeSummary>> {
        let asked = names.into_iter().map(|name| async move {
            let summary = self.ask_one(&name).await?;
            Some((name, summary))
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    async fn ask_one(&self, name: &str) -> Option<Arc<NodeSummary>> {
        let summaries = {
            let mut all = self.summaries.lock();
            Arc::clone(all.entry(name.to_owned()).or_default())
        };
        let mut summaries = summaries.lock().await;
        if let Some((at, summary)) = &*summaries
            && at.elapsed() < FRESH
        {
            return summary.clone();
        }
        let summary = match time::timeout(PATIENCE, self.fetch(name)).await {
            Ok(Ok(summary)) => Some(Arc::new(summary)),
            Ok(Err(error)) => {
                tracing::debug!(
                    node = name,
                    error = error.to_string(),
                    "failed to get node summary"
                );
                None
            }
            Err(_) => None,
        };
        // A node that is gone is not kept for ever.
        if summary.is_none() && self.get("Node", "", name).is_none() {
            let mut all = self.summaries.lock();
            all.remove(name);
        }
        *summaries = Some((Instant::now(), summary.clone()));
        summary
    }

    async fn fetch(&self, name: &str) -> Result<NodeSummary, SummaryError> {
        let reached = self.nodes.find(name)?;
        let location = self.nodes.location(
            name,
            reached,
            NodeCertificateCheck::Verify,
            "/stats/summary".to_owned(),
            "only_cpu_and_memory=true".to_owned(),
        )?;
        let body = location.fetch(LONGEST).await?;
        Ok(serde_json::from_slice(&body)?)
    }
}

fn shown_pod(pod: &Value, summaries: &HashMap<String, Arc<NodeSummary>>, now: Time) -> Option<Value> {
    node_metrics::pod(pod, summaries.get(pod.at("spec").text("nodeName"))?, now)
}

fn names(objects: &[Value]) -> BTreeSet<String> {
    let names = objects.iter().map(|object| object.at("metadata").text("name"));
    names.map(ToOwned::to_owned).collect()
}

fn nodes_of(pods: &[Value]) -> BTreeSet<String> {
    let running = pods
        .iter()
        .filter(|pod| pod.at("status").text("phase") == "Running");
    let names = running.map(|pod| pod.at("spec").text("nodeName").to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

fn list(kind: &str, items: impl Iterator<Item = Value>) -> Value {
    json!({
        "kind": kind,
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {},
        "items": items.collect::<Vec<_>>(),
    })
}

// --- UsageSelector ---

impl UsageSelector {
    fn read(query: &Query) -> Result<Self, Status> {
        let bad = |error: String| Status::bad_request(error);
        Ok(UsageSelector {
            labels: label::parse(query.text("labelSelector")).map_err(|error| bad(error.to_string()))?,
            fields: field::Selector::parse(query.text("fieldSelector"))
                .map_err(|error| bad(error.to_string()))?,
        })
    }

    fn matches(&self, object: &Value) -> bool {
        let metadata = object.at("metadata");
        self.labels.matches(&metadata.at("labels").as_object())
            && self.fields.matches(|field| {
                Some(match field {
                    "metadata.name" => metadata.text("name"),
                    "metadata.namespace" => metadata.text("namespace"),
                    _ => "",
                })
            })
    }
}
