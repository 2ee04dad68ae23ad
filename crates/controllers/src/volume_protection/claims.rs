//! PVC protection: claims are kept while pods use them. Also sets the Unused condition.

use k3_workloads::{ClaimPhase, Condition, ConditionStatus, PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::Delta,
    store::{Index, Store},
    writer::{ApiWriter, ObjectRef},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{FinalizerAction, FinalizerChange, write_finalizers};
use crate::{
    context::{ControllerContext, Task},
    patch_values::truncate_to_second,
    resource::{PERSISTENT_VOLUME_CLAIMS, PODS},
};

const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// Condition: since when no pod uses a claim.
const UNUSED: &str = "Unused";

// upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go Controller, processPVC
struct PVCProtectionController {
    writer: ApiWriter,
    clock: Clock,
    claims: Store<PersistentVolumeClaim>,
    users: Index<Pod>,
}

/// Whether a pod uses a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimUsage {
    Used,
    Unused,
}

#[derive(Deserialize)]
struct Pods {
    #[serde(default)]
    items: Vec<Pod>,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let pods = context.pods();
    let guard = PVCProtectionController {
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

// --- PVCProtectionController ---

impl Reconciler for PVCProtectionController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(claim) = self.claims.get(&request.key) else {
            return Ok(Outcome::Done);
        };
        if let Some(conditions) = self.conditions(&request.key, &claim) {
            // The finalizer is handled when this write is delivered by the informer.
            let meta = &claim.metadata;
            let patch = json!({
                "metadata": {"resourceVersion": meta.resource_version},
                "status": {"conditions": conditions},
            });
            let object_ref = ObjectRef::new(&PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &meta.name);
            self.writer
                .merge_patch::<Value>(object_ref.subresource("status"), &patch)
                .await?;
            return Ok(Outcome::Done);
        }
        let change = match FinalizerAction::of(&*claim, FINALIZER) {
            FinalizerAction::Add => FinalizerChange::Add,
            FinalizerAction::RemoveIfUnused if !self.is_used(&request.key, &claim).await? => {
                FinalizerChange::Remove
            }
            _ => return Ok(Outcome::Done),
        };
        write_finalizers(
            &self.writer,
            &PERSISTENT_VOLUME_CLAIMS,
            &claim.metadata,
            FINALIZER,
            change,
        )
        .await?;
        Ok(Outcome::Done)
    }
}

impl PVCProtectionController {
    /// Whether a pod uses a claim. Before the answer is no, the server is asked: a pod that is not in the informer's cache yet may
    /// have started with the claim.
    // upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go isBeingUsedWith, askInformer, askAPIServer
    async fn is_used(&self, key: &Key, claim: &PersistentVolumeClaim) -> kube::Result<bool> {
        let known = self.users.get(key.as_str());
        if known.iter().any(|pod| uses_for_deletion(pod, claim)) {
            return Ok(true);
        }
        let path = PODS.path(key.namespace());
        let fresh: Pods = self.writer.get_path(&path, "application/json").await?;
        Ok(fresh.items.iter().any(|pod| uses_for_deletion(pod, claim)))
    }

    /// The desired conditions, if they differ.
    // upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go updateUnusedCondition
    fn conditions(&self, key: &Key, claim: &PersistentVolumeClaim) -> Option<Vec<Condition>> {
        if claim.metadata.is_terminating() || claim.status.phase != ClaimPhase::Bound {
            return None;
        }
        let users = self.users.get(key.as_str());
        let is_used = users.iter().any(|pod| uses_claim(pod, claim) && !pod.has_ended());
        let usage = if is_used {
            ClaimUsage::Used
        } else {
            ClaimUsage::Unused
        };
        set_unused_condition(&claim.status.conditions, usage, self.clock.now())
    }
}

/// Whether a pod blocks the deletion of a claim: it is scheduled, and the claim may be mounted until the pod is deleted.
// upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go podUsesPVCForDeletion
fn uses_for_deletion(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let is_shut_down = pod.metadata.is_terminating() && pod.metadata.deletion_grace_period_seconds == Some(0);
    !pod.spec.node_name.is_empty()
        && pod.spec.volumes.iter().any(|volume| {
            volume.claim_name(&pod.metadata.name).as_deref() == Some(&*claim.metadata.name)
                && (!volume.is_ephemeral() || (!is_shut_down && is_made_for(pod, claim)))
        })
}

/// Whether a pod refers to a claim, directly or by an ephemeral volume.
// upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go podUsesPVCForUnusedSince
fn uses_claim(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    pod.spec.volumes.iter().any(|volume| {
        volume.claim_name(&pod.metadata.name).as_deref() == Some(&*claim.metadata.name)
            && (!volume.is_ephemeral() || is_made_for(pod, claim))
    })
}

fn is_made_for(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.is_controlled_by(&pod.metadata.uid)
}

/// The conditions with the Unused condition, if it changes.
// upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go setUnusedCondition
fn set_unused_condition(
    conditions: &[Condition],
    usage: ClaimUsage,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let status = match usage {
        ClaimUsage::Unused => ConditionStatus::True,
        ClaimUsage::Used => ConditionStatus::False,
    };
    let reported = Condition::find(conditions, UNUSED);
    let is_reported = reported.is_some_and(|reported| match reported.status {
        ConditionStatus::Unknown => usage == ClaimUsage::Used,
        reported => reported == status,
    });
    if is_reported {
        return None;
    }
    let (reason, message) = match usage {
        ClaimUsage::Unused => ("NoPodsUsingPVC", "No pods are currently referencing this PVC"),
        ClaimUsage::Used => ("PodUsingPVC", "A pod is currently referencing this PVC"),
    };
    let condition = Condition {
        kind: UNUSED.into(),
        status,
        reason: reason.into(),
        message: message.into(),
        last_transition_time: Some(truncate_to_second(now)),
        // upstream writes an unset time as null
        other: [("lastProbeTime".to_owned(), Value::Null)].into_iter().collect(),
    };
    let mut new = conditions.to_vec();
    match new.iter_mut().find(|reported| &*reported.kind == UNUSED) {
        Some(reported) => *reported = condition,
        None => new.push(condition),
    }
    Some(new)
}
