//! The node IPAM controller: assigns pod CIDRs to nodes. Disabled unless cluster CIDRs are configured.
//!
//! No two nodes get the same CIDR, even if two replicas of this controller run. spec.podCIDR is immutable, and there is no
//! single object for a compare-and-swap. So a CIDR is first claimed in an annotation of the node, then all nodes are read from
//! the server, and only a CIDR that no other node has or claims is assigned: of two controllers that chose the same one, at
//! least one sees the other and chooses again.

mod allocate;
mod cidr_set;
#[cfg(test)]
mod tests;

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::{StreamExt, TryStreamExt, stream};
use k3_workloads::Node;
use kubecontroller::{
    Key,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    events::EventRecorder,
    informer::{Delta, Informer},
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

use self::allocate::{CLAIM, CidrChoice, ClusterCidrRanges, needs_cidrs};

use crate::{
    cidr::Cidr,
    context::{ControllerContext, Task},
    event_message::EventMessage,
    resource::NODES,
};

/// Nodes written concurrently.
const CONCURRENT_WRITES: usize = 30;
/// Requeue delay for nodes without an available CIDR.
const EXHAUSTED_DELAY: Duration = Duration::from_mins(1);

/// The only work queue key: CIDRs are chosen for all nodes together.
const QUEUE_KEY: &str = "nodes";

// upstream: pkg/controller/nodeipam/ipam/range_allocator.go rangeAllocator
struct NodeIpamController {
    writer: ApiWriter,
    recorder: EventRecorder,
    nodes: Informer<Node>,
    ranges: ClusterCidrRanges,
    hints: Mutex<AllocationHints>,
}

/// Hints for better choices; correctness does not depend on them.
#[derive(Default)]
struct AllocationHints {
    next: Vec<usize>,
    /// UIDs of nodes that conflicted with others.
    conflicting: HashSet<Box<str>>,
}

/// What becomes of claimed CIDRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimEnd {
    /// The node gets them.
    Assign,
    /// They clash with those of another node.
    Drop,
}

#[derive(Deserialize)]
struct NodesByName {
    items: Vec<Node>,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let networks = &context.cluster.node_networks;
    if networks.pods.is_empty() {
        return Vec::new();
    }
    let ranges = match ClusterCidrRanges::new(networks) {
        Ok(ranges) => ranges,
        Err(error) => {
            tracing::error!(%error, "node IPAM controller disabled: invalid cluster CIDR configuration");
            return Vec::new();
        }
    };
    let nodes = context.informer::<Node>(&NODES);
    let reconciler = NodeIpamController {
        writer: context.writer.clone(),
        recorder: context.recorder.clone().component("cidrAllocator"),
        nodes: nodes.clone(),
        ranges,
        hints: Mutex::default(),
    };
    let runner = context
        .controller("node-ipam-controller")
        .watches_where(&nodes, node_predicate(), |_| vec![Key::new("", QUEUE_KEY)])
        .workers(1)
        .reconciler(reconciler);
    vec![Box::new(runner)]
}

/// Whether a node needs CIDRs, or releases some.
fn node_predicate() -> Predicate<Node> {
    Predicate::new(|delta: &Delta<Node>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => needs_cidrs(old) != needs_cidrs(new),
        (None, Some(new)) => needs_cidrs(new),
        _ => true,
    })
}

// --- NodeIpamController ---

impl Reconciler for NodeIpamController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let nodes = self.nodes.store().all();
        if !nodes.iter().any(|node| needs_cidrs(node)) {
            return Ok(Outcome::Done);
        }
        let choices = self.choose(&nodes);
        let are_all = choices.iter().all(|choice| choice.networks.is_some());
        let claimed: Vec<Node> = stream::iter(choices)
            .map(|choice| self.claim(choice))
            .buffer_unordered(CONCURRENT_WRITES)
            .try_filter_map(async |claimed| Ok(claimed))
            .try_collect()
            .await?;
        if !claimed.is_empty() {
            let all: NodesByName = self.writer.get_path(&NODES.path(""), "application/json").await?;
            let clashes = self.ranges.conflicting_nodes(&all.items);
            let is_clashing = |node: &Node| clashes.contains(&*node.metadata.uid);
            let is_any_clashing = claimed.iter().any(is_clashing);
            self.remember(claimed.iter().filter(|node| is_clashing(node)));
            let writes = claimed.into_iter().map(|node| {
                let end = if is_clashing(&node) {
                    ClaimEnd::Drop
                } else {
                    ClaimEnd::Assign
                };
                self.end_claim(node, end, &request)
            });
            stream::iter(writes)
                .buffer_unordered(CONCURRENT_WRITES)
                .try_collect::<()>()
                .await?;
            if is_any_clashing {
                return Err(Error::transient("nodes were about to get the same network"));
            }
        }
        Ok(if are_all {
            Outcome::Done
        } else {
            Outcome::RequeueAfter(EXHAUSTED_DELAY)
        })
    }
}

impl NodeIpamController {
    fn choose(&self, nodes: &[Arc<Node>]) -> Vec<CidrChoice> {
        let mut hints = self.hints.lock();
        let AllocationHints { next, conflicting } = &mut *hints;
        let uids: HashSet<&str> = nodes.iter().map(|node| &*node.metadata.uid).collect();
        conflicting.retain(|uid| uids.contains(&**uid));
        self.ranges
            .choose(nodes, next, |node| conflicting.contains(&node.metadata.uid))
    }

    /// Claims CIDRs in an annotation of a node. Returns the updated node.
    // upstream: pkg/controller/nodeipam/ipam/range_allocator.go AllocateOrOccupyCIDR
    async fn claim(&self, choice: CidrChoice) -> Result<Option<Node>, Error> {
        let node = choice.node;
        let name = &*node.metadata.name;
        let Some(networks) = choice.networks else {
            let message = format_args!("Node {name} status is now: CIDRNotAvailable");
            let mut about = node.metadata.reference(&NODES);
            about.resource_version = None;
            EventMessage::normal("CIDRNotAvailable", message).record(&self.recorder, &about);
            return Ok(None);
        };
        if allocate::cidrs_of(&node) == networks {
            return Ok(Some((*node).clone()));
        }
        let claim = to_strings(&networks).join(",");
        let patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version, "annotations": {CLAIM: claim}}});
        match self
            .writer
            .merge_patch(ObjectRef::new(&NODES, "", name), &patch)
            .await
        {
            Err(error) if has_status_code(&error, 404) => Ok(None),
            claimed => Ok(Some(claimed?)),
        }
    }

    /// Remembers nodes that conflicted with others.
    fn remember<'a>(&self, conflicting: impl Iterator<Item = &'a Node>) {
        let mut hints = self.hints.lock();
        hints
            .conflicting
            .extend(conflicting.map(|node| node.metadata.uid.clone()));
    }

    /// Removes the claim of a node.
    // upstream: pkg/controller/nodeipam/ipam/range_allocator.go updateCIDRsAllocation
    async fn end_claim(&self, node: Node, end: ClaimEnd, request: &Request) -> Result<(), Error> {
        let metadata = &node.metadata;
        let mut patch =
            json!({"metadata": {"resourceVersion": metadata.resource_version, "annotations": {CLAIM: null}}});
        if end == ClaimEnd::Assign {
            let networks = to_strings(&allocate::cidrs_of(&node));
            patch["spec"] = json!({"podCIDR": networks.first(), "podCIDRs": networks});
        }
        let written = self
            .writer
            .merge_patch::<WrittenObject>(ObjectRef::new(&NODES, "", &metadata.name), &patch);
        match written.await {
            Err(error) if has_status_code(&error, 404) => {}
            written => request.record_write(&self.nodes, &written?.metadata.resource_version),
        }
        Ok(())
    }
}

fn to_strings(networks: &[Cidr]) -> Vec<String> {
    networks.iter().map(ToString::to_string).collect()
}
