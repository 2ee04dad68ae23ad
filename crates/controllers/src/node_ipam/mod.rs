//! Nodes get networks for their pods, cut from the networks of the cluster. Off unless these are known.
//!
//! No two nodes get the same, also if two copies of this run at once. A network cannot be taken back from a node, and there is
//! no object on which all who choose could compare and set. So what a node is about to get is written on the node first, then
//! all nodes are read from the server, and only what no other node has or is about to get is given: of two who chose the same
//! at least one sees the other, and chooses again.

mod plan;
mod range;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use kubecontroller::{
    Key,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    events::EventRecorder,
    informer::{Delta, Informer},
};
use serde::Deserialize;
use serde_json::{Value, json};

use self::plan::{CLAIM, Choice, Ranges, is_wanting};
use crate::{
    context::{Context, Task},
    network::Network,
    news::News,
    objects::Node,
    resource::NODES,
    writer::{Place, Writer, is},
};

/// How many nodes are written at once.
const AT_ONCE: usize = 30;
/// When it is looked again for a network for a node that got none.
const LATER: Duration = Duration::from_mins(1);

/// The one key: networks are chosen for all nodes together.
const ALL: &str = "nodes";

struct Allocator {
    writer: Writer,
    recorder: EventRecorder,
    nodes: Informer<Node>,
    ranges: Ranges,
    memory: Mutex<Memory>,
}

/// What makes choices better; none is wrong without it.
#[derive(Default)]
struct Memory {
    next: Vec<usize>,
    /// The uids of nodes that clashed with others.
    clashed: HashSet<Box<str>>,
}

/// All nodes.
#[derive(Deserialize)]
struct Nodes {
    items: Vec<Node>,
}

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let networks = &context.cluster.node_networks;
    if networks.pods.is_empty() {
        return Vec::new();
    }
    let ranges = match Ranges::new(networks) {
        Ok(ranges) => ranges,
        Err(error) => {
            tracing::error!(%error, "nodes get no networks for their pods");
            return Vec::new();
        }
    };
    let nodes = context.informer::<Node>(&NODES);
    let allocator = Allocator {
        writer: context.writer.clone(),
        recorder: context.recorder.clone().component("cidrAllocator"),
        nodes: nodes.clone(),
        ranges,
        memory: Mutex::default(),
    };
    let runner = context
        .controller("cidrallocator_node")
        .watches_where(&nodes, matters(), |_| vec![Key::new("", ALL)])
        .workers(1)
        .reconciler(allocator);
    vec![Box::new(runner)]
}

/// Whether a node wants networks, or gives some back.
fn matters() -> Predicate<Node> {
    Predicate::new(|delta: &Delta<Node>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => is_wanting(old) != is_wanting(new),
        (None, Some(new)) => is_wanting(new),
        _ => true,
    })
}

// --- Allocator ---

impl Reconciler for Allocator {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let nodes = self.nodes.store().all();
        if !nodes.iter().any(|node| is_wanting(node)) {
            return Ok(Outcome::Done);
        }
        let choices = self.choose(&nodes);
        let are_all = choices.iter().all(|choice| choice.networks.is_some());
        let claimed: Vec<Node> = stream::iter(choices)
            .map(|choice| self.claim(choice))
            .buffer_unordered(AT_ONCE)
            .try_filter_map(async |claimed| Ok(claimed))
            .try_collect()
            .await?;
        if !claimed.is_empty() {
            let all: Nodes = self.writer.read(&NODES.path(""), "application/json").await?;
            let clashes = self.ranges.clashes(&all.items);
            let is_clashing = |node: &Node| clashes.contains(&*node.metadata.uid);
            let is_any_clashing = claimed.iter().any(is_clashing);
            self.remember(claimed.iter().filter(|node| is_clashing(node)));
            let writes = claimed.into_iter().map(|node| {
                let is_given = !is_clashing(&node);
                self.settle(node, is_given, &request)
            });
            stream::iter(writes)
                .buffer_unordered(AT_ONCE)
                .try_collect::<()>()
                .await?;
            if is_any_clashing {
                return Err(Error::transient("nodes were about to get the same network"));
            }
        }
        Ok(if are_all {
            Outcome::Done
        } else {
            Outcome::RequeueAfter(LATER)
        })
    }
}

impl Allocator {
    fn choose(&self, nodes: &[Arc<Node>]) -> Vec<Choice> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let Memory { next, clashed } = &mut *memory;
        let uids: HashSet<&str> = nodes.iter().map(|node| &*node.metadata.uid).collect();
        clashed.retain(|uid| uids.contains(&**uid));
        self.ranges
            .choose(nodes, next, |node| clashed.contains(&node.metadata.uid))
    }

    /// Writes down what a node is about to get. Gives the node as it is then.
    async fn claim(&self, choice: Choice) -> Result<Option<Node>, Error> {
        let node = choice.node;
        let name = &*node.metadata.name;
        let Some(networks) = choice.networks else {
            let message = format_args!("Node {name} status is now: CIDRNotAvailable");
            let mut about = node.metadata.reference(&NODES);
            about.resource_version = None;
            News::normal("CIDRNotAvailable", message).tell(&self.recorder, &about);
            return Ok(None);
        };
        if plan::held(&node) == networks {
            return Ok(Some((*node).clone()));
        }
        let claim = texts(&networks).join(",");
        let patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version, "annotations": {CLAIM: claim}}});
        match self.writer.merge(Place::new(&NODES, "", name), &patch).await {
            Err(error) if is(&error, 404) => Ok(None),
            claimed => Ok(Some(claimed?)),
        }
    }

    /// These nodes clashed with others.
    fn remember<'a>(&self, clashed: impl Iterator<Item = &'a Node>) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory
            .clashed
            .extend(clashed.map(|node| node.metadata.uid.clone()));
    }

    /// Gives a node what it is about to get, or not.
    async fn settle(&self, node: Node, is_given: bool, request: &Request) -> Result<(), Error> {
        let metadata = &node.metadata;
        let mut patch =
            json!({"metadata": {"resourceVersion": metadata.resource_version, "annotations": {CLAIM: null}}});
        if is_given {
            let networks = texts(&plan::held(&node));
            patch["spec"] = json!({"podCIDR": networks.first(), "podCIDRs": networks});
        }
        let written = self
            .writer
            .merge::<Value>(Place::new(&NODES, "", &metadata.name), &patch);
        match written.await {
            Err(error) if is(&error, 404) => {}
            written => {
                let version = written?["metadata"]["resourceVersion"]
                    .as_str()
                    .map(str::to_owned);
                request.record_write(&self.nodes, &version.unwrap_or_default());
            }
        }
        Ok(())
    }
}

fn texts(networks: &[Network]) -> Vec<String> {
    networks.iter().map(ToString::to_string).collect()
}
