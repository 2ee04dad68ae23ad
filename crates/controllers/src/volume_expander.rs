//! The volume expand controller: records an event for claims that request more than their volume has. External resizers do the work.

use k3_workloads::{ClaimPhase, PersistentVolume, PersistentVolumeClaim};
use kubecontroller::{
    Key,
    controller::{Outcome, Predicate, reconcile_fn},
    informer::Delta,
};

use crate::{
    context::{ControllerContext, Task},
    event_message::EventMessage,
    resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES},
};

/// Source of its events.
const COMPONENT: &str = "volume_expand";

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let volumes = context.informer::<PersistentVolume>(&PERSISTENT_VOLUMES);
    let recorder = context.recorder.clone().component(COMPONENT);
    let known = claims.store().clone();
    let runner = context
        .controller("persistentvolume-expander-controller")
        .for_where(&claims, Predicate::new(may_need_expansion))
        .reconciler(reconcile_fn(move |request| {
            let claim = known.get(&request.key);
            let volume = claim
                .as_ref()
                .and_then(|claim| volumes.store().get(&Key::new("", &claim.spec.volume_name)));
            if let (Some(claim), Some(volume)) = (claim, volume)
                && needs_expansion(&claim, &volume)
            {
                let message = "waiting for an external controller to expand this PVC";
                let about = claim.metadata.reference(&PERSISTENT_VOLUME_CLAIMS);
                EventMessage::normal("ExternalExpanding", message).record(&recorder, &about);
            }
            async { Ok(Outcome::Done) }
        }));
    vec![Box::new(runner)]
}

/// Whether a bound claim is new, requests more than before, or has more capacity.
fn may_need_expansion(delta: &Delta<PersistentVolumeClaim>) -> bool {
    let asked = |claim: &PersistentVolumeClaim| claim.spec.resources.requests.amount();
    let has = |claim: &PersistentVolumeClaim| claim.status.capacity.clone().unwrap_or_default().amount();
    delta.new().is_some_and(|new| {
        new.status.phase == ClaimPhase::Bound
            && delta
                .old()
                .is_none_or(|old| asked(new) > asked(old) || has(new) > has(old))
    })
}

/// Whether a claim requests more than its capacity.
// upstream: pkg/controller/volume/expand/expand_controller.go syncHandler
fn needs_expansion(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let has = claim.status.capacity.clone().unwrap_or_default().amount();
    let is_its_own = volume
        .spec
        .claim_ref
        .as_ref()
        .is_some_and(|of| of.namespace == claim.metadata.namespace && of.uid == claim.metadata.uid);
    is_its_own && claim.spec.resources.requests.amount() > has
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Event;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::Scenario;

    const STORY: Scenario = Scenario {
        make,
        setup: |cluster| {
            for (name, asked) in [("enough", "1Gi"), ("more", "2Gi")] {
                cluster.put(
                    &PERSISTENT_VOLUMES,
                    json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"},
                        "claimRef": {"namespace": "shop", "name": name, "uid": name}}}),
                );
                cluster.put(
                    &PERSISTENT_VOLUME_CLAIMS,
                    json!({"metadata": {"name": name, "namespace": "shop", "uid": name},
                        "spec": {"volumeName": name, "resources": {"requests": {"storage": asked}}},
                        "status": {"phase": "Bound", "capacity": {"storage": "1024Mi"}}}),
                );
            }
        },
        play: |_| {},
        end: |cluster| {
            let reported = cluster.api.list::<Event>().into_iter();
            let reported: Vec<Value> = reported
                .map(|event| {
                    json!([
                        event.involved_object.name,
                        event.type_,
                        event.reason,
                        event.message
                    ])
                })
                .collect();
            (!reported.is_empty()).then(|| reported.into())
        },
    };

    #[tokio::test(start_paused = true)]
    async fn records_external_expansion() {
        let (end, _) = STORY.run().await;
        let message = "waiting for an external controller to expand this PVC";
        assert_eq!(end, json!([["more", "Normal", "ExternalExpanding", message]]));
    }
}
