//! Claims stay as long as pods use them, and tell whether any does.

use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::Delta,
    store::{By, Store},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Hold, write};
use crate::{
    context::{ControllerContext, Task},
    objects::{ClaimPhase, Condition, ConditionStatus, PersistentVolumeClaim, Pod},
    patch_values::truncate_to_second,
    resource::{PERSISTENT_VOLUME_CLAIMS, PODS},
    writer::{ApiWriter, ObjectRef},
};

const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// The condition that tells since when nobody uses a claim.
const UNUSED: &str = "Unused";

struct Guard {
    writer: ApiWriter,
    clock: Clock,
    claims: Store<PersistentVolumeClaim>,
    users: By<Pod>,
}

#[derive(Deserialize)]
struct Pods {
    #[serde(default)]
    items: Vec<Pod>,
}

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let pods = context.pods();
    let guard = Guard {
        writer: context.writer.clone(),
        clock: context.clock.clone(),
        claims: claims.store().clone(),
        users: context.pods_by_claim(),
    };
    let runner = context
        .controller("persistentvolumeclaim-protection-controller")
        .for_(&claims)
        .watches(&pods, |delta: &Delta<Pod>| {
            let states = delta.old().into_iter().chain([delta.object()]);
            states.flat_map(|pod| claims_of(pod)).collect()
        })
        .reconciler(guard);
    vec![Box::new(runner)]
}

fn claims_of(pod: &Pod) -> Vec<Key> {
    let claims = pod.claims();
    claims
        .map(|claim| Key::new(&pod.metadata.namespace, &claim))
        .collect()
}

// --- Guard ---

impl Reconciler for Guard {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(claim) = self.claims.get(&request.key) else {
            return Ok(Outcome::Done);
        };
        if let Some(conditions) = self.conditions(&request.key, &claim) {
            // The finalizer is seen to when this write comes back.
            let meta = &claim.metadata;
            let patch = json!({
                "metadata": {"resourceVersion": meta.resource_version},
                "status": {"conditions": conditions},
            });
            let object_ref = ObjectRef::new(&PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &meta.name);
            self.writer
                .update_with_merge::<Value>(object_ref.subresource("status"), &patch)
                .await?;
            return Ok(Outcome::Done);
        }
        let is_held = match Hold::of(&*claim, FINALIZER) {
            Hold::Add => true,
            Hold::Consider if !self.is_used(&request.key, &claim).await? => false,
            _ => return Ok(Outcome::Done),
        };
        write(
            &self.writer,
            &PERSISTENT_VOLUME_CLAIMS,
            &claim.metadata,
            FINALIZER,
            is_held,
        )
        .await?;
        Ok(Outcome::Done)
    }
}

impl Guard {
    /// Whether a pod holds a claim. Before it is said that none does, the server is asked: a pod that is not in the informer
    /// yet may have been started with the claim, which would then go from under it.
    async fn is_used(&self, key: &Key, claim: &PersistentVolumeClaim) -> kube::Result<bool> {
        let known = self.users.get(key.as_str());
        if known.iter().any(|pod| holds(pod, claim)) {
            return Ok(true);
        }
        let path = PODS.path(key.namespace());
        let fresh: Pods = self.writer.get_path(&path, "application/json").await?;
        Ok(fresh.items.iter().any(|pod| holds(pod, claim)))
    }

    /// The conditions that a claim is to have, if it has others.
    fn conditions(&self, key: &Key, claim: &PersistentVolumeClaim) -> Option<Vec<Condition>> {
        if claim.metadata.is_going() || claim.status.phase != ClaimPhase::Bound {
            return None;
        }
        let users = self.users.get(key.as_str());
        let is_used = users.iter().any(|pod| refers(pod, claim) && !pod.has_ended());
        unused(&claim.status.conditions, !is_used, self.clock.now())
    }
}

/// Whether a pod keeps a claim from going: it has a node, where the claim may be mounted until the pod is gone.
fn holds(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let is_shut_down = pod.metadata.is_going() && pod.metadata.deletion_grace_period_seconds == Some(0);
    !pod.spec.node_name.is_empty()
        && pod.spec.volumes.iter().any(|volume| {
            volume.claim_name(&pod.metadata.name) == *claim.metadata.name
                && (!volume.is_ephemeral() || (!is_shut_down && is_made_for(pod, claim)))
        })
}

/// Whether a pod names a claim, or had it made.
fn refers(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    pod.spec.volumes.iter().any(|volume| {
        volume.claim_name(&pod.metadata.name) == *claim.metadata.name
            && (!volume.is_ephemeral() || is_made_for(pod, claim))
    })
}

fn is_made_for(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.is_controlled_by(&pod.metadata.uid)
}

/// The conditions with the one that tells whether nobody uses a claim, if that is not among them.
fn unused(conditions: &[Condition], is_unused: bool, now: Timestamp) -> Option<Vec<Condition>> {
    let status = ConditionStatus::from(is_unused);
    let told = Condition::find(conditions, UNUSED);
    let is_told = told.is_some_and(|told| match told.status {
        ConditionStatus::Unknown => !is_unused,
        told => told == status,
    });
    if is_told {
        return None;
    }
    let (reason, message) = if is_unused {
        ("NoPodsUsingPVC", "No pods are currently referencing this PVC")
    } else {
        ("PodUsingPVC", "A pod is currently referencing this PVC")
    };
    let condition = Condition {
        kind: UNUSED.into(),
        status,
        reason: reason.into(),
        message: message.into(),
        last_transition_time: Some(truncate_to_second(now)),
        // A time that is not set is written by upstream, as nothing.
        other: [("lastProbeTime".to_owned(), Value::Null)].into_iter().collect(),
    };
    let mut new = conditions.to_vec();
    match new.iter_mut().find(|told| &*told.kind == UNUSED) {
        Some(told) => *told = condition,
        None => new.push(condition),
    }
    Some(new)
}
