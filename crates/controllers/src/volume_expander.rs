//! Tells of claims that ask for more than their volumes hold. What makes volumes larger is the business of others.

use kubecontroller::{
    Key,
    controller::{Outcome, Predicate, reconcile_fn},
    informer::Delta,
};

use crate::{
    context::{ControllerContext, Task},
    event_message::EventMessage,
    objects::{ClaimPhase, PersistentVolume, PersistentVolumeClaim},
    resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES},
};

/// What tells the events.
const COMPONENT: &str = "volume_expand";

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let volumes = context.informer::<PersistentVolume>(&PERSISTENT_VOLUMES);
    let recorder = context.recorder.clone().component(COMPONENT);
    let known = claims.store().clone();
    let runner = context
        .controller("persistentvolume-expander-controller")
        .for_where(&claims, Predicate::new(grows))
        .reconciler(reconcile_fn(move |request| {
            let claim = known.get(&request.key);
            let volume = claim
                .as_ref()
                .and_then(|claim| volumes.store().get(&Key::new("", &claim.spec.volume_name)));
            if let (Some(claim), Some(volume)) = (claim, volume)
                && wants_more(&claim, &volume)
            {
                let words = "waiting for an external controller to expand this PVC";
                let about = claim.metadata.reference(&PERSISTENT_VOLUME_CLAIMS);
                EventMessage::normal("ExternalExpanding", words).record(&recorder, &about);
            }
            async { Ok(Outcome::Done) }
        }));
    vec![Box::new(runner)]
}

/// Whether a claim that is bound is new here, or asks for more than before, or has more.
fn grows(delta: &Delta<PersistentVolumeClaim>) -> bool {
    let asked = |claim: &PersistentVolumeClaim| claim.spec.resources.requests.amount();
    let has = |claim: &PersistentVolumeClaim| claim.status.capacity.clone().unwrap_or_default().amount();
    delta.new().is_some_and(|new| {
        new.status.phase == ClaimPhase::Bound
            && delta
                .old()
                .is_none_or(|old| asked(new) > asked(old) || has(new) > has(old))
    })
}

/// Whether a claim asks for more than it has of its volume.
fn wants_more(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
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
            let told = cluster.api.list::<Event>().into_iter();
            let told: Vec<Value> = told
                .map(|event| {
                    json!([
                        event.involved_object.name,
                        event.type_,
                        event.reason,
                        event.message
                    ])
                })
                .collect();
            (!told.is_empty()).then(|| told.into())
        },
    };

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_asks_for_more_than_it_has_waits_for_others() {
        let (end, _) = STORY.run().await;
        let words = "waiting for an external controller to expand this PVC";
        assert_eq!(end, json!([["more", "Normal", "ExternalExpanding", words]]));
    }
}
