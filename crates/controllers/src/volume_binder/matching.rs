//! Matches volumes to claims.

use std::{collections::BTreeSet, sync::Arc};

use k3_workloads::{PersistentVolume, PersistentVolumeClaim, VolumePhase};

use crate::objects::BindingMode;

/// Why a claim cannot be bound to the volume it requests by name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MismatchReason {
    #[error("the volume is marked for deletion {0:?}")]
    Terminating(Box<str>),
    #[error("requested PV is too small")]
    Small,
    #[error("storageClassName does not match")]
    Class,
    #[error("volumeAttributesClassName does not match")]
    AttributesClass,
    #[error("incompatible volumeMode")]
    Mode,
    #[error("incompatible accessMode")]
    AccessMode,
}

/// The best volume for a claim: pre-bound to it if possible, otherwise with the fewest access modes and the smallest capacity.
/// With WaitForFirstConsumer only a pre-bound volume is considered: the scheduler chooses.
// upstream: pkg/controller/volume/persistentvolume/index.go findByClaim, findBestMatchForClaim
pub(super) fn best_match(
    claim: &PersistentVolumeClaim,
    mode: BindingMode,
    volumes: impl IntoIterator<Item = Arc<PersistentVolume>>,
) -> Option<Arc<PersistentVolume>> {
    let good = volumes.into_iter().filter(|volume| is_match(claim, volume, mode));
    good.min_by_key(|volume| {
        let modes: BTreeSet<_> = volume.spec.access_modes.iter().collect();
        (
            modes.len(),
            !volume.is_for(claim),
            volume.spec.capacity.amount(),
            volume.metadata.name.clone(),
        )
    })
}

/// Whether a volume matches a claim that does not request one by name.
pub(super) fn is_match(claim: &PersistentVolumeClaim, volume: &PersistentVolume, mode: BindingMode) -> bool {
    let is_for = volume.is_for(claim);
    if volume.spec.claim_ref.is_some() && !is_for {
        return false;
    }
    let claim_spec = &claim.spec;
    let volume_spec = &volume.spec;
    let is_possible = has_modes(claim, volume)
        && volume_spec.capacity.amount() >= claim_spec.resources.requests.amount()
        && claim_spec.volume_mode == volume_spec.volume_mode
        && has_attributes(claim, volume)
        && !volume.metadata.is_terminating();
    if !is_possible || is_for {
        return is_possible;
    }
    let is_selected = |labels| {
        claim_spec
            .selector
            .as_ref()
            .is_none_or(|selector| selector.matches(labels))
    };
    mode == BindingMode::Immediate
        && volume.status.phase == VolumePhase::Available
        && is_selected(&volume.metadata.labels)
        && volume.class() == claim.class()
}

/// Whether a claim can be bound to the volume it requests by name.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go checkVolumeSatisfyClaim
pub(super) fn check_volume_satisfies_claim(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<(), MismatchReason> {
    let claim_spec = &claim.spec;
    let volume_spec = &volume.spec;
    if volume.metadata.is_terminating() {
        Err(MismatchReason::Terminating(volume.metadata.name.clone()))
    } else if volume_spec.capacity.amount().value() < claim_spec.resources.requests.amount().value() {
        Err(MismatchReason::Small)
    } else if volume.class() != claim.class() {
        Err(MismatchReason::Class)
    } else if !has_attributes(claim, volume) {
        Err(MismatchReason::AttributesClass)
    } else if claim_spec.volume_mode != volume_spec.volume_mode {
        Err(MismatchReason::Mode)
    } else if !has_modes(claim, volume) {
        Err(MismatchReason::AccessMode)
    } else {
        Ok(())
    }
}

fn has_modes(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let claim_spec = &claim.spec.access_modes;
    let volume_spec = &volume.spec.access_modes;
    claim_spec.iter().all(|mode| volume_spec.contains(mode))
}

/// Whether the volume attributes classes are equal; the empty one counts as none.
fn has_attributes(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let claim_spec = claim.spec.volume_attributes_class_name.as_deref();
    let volume_spec = volume.spec.volume_attributes_class_name.as_deref();
    claim_spec.unwrap_or_default() == volume_spec.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(spec: Value) -> PersistentVolumeClaim {
        let mut whole = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": {"requests": {"storage": "2Gi"}}});
        k3_api::patch::merge::apply(whole.take(), spec)
            .map(|spec| {
                let meta = json!({"name": "c", "namespace": "shop", "uid": "u"});
                serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap()
            })
            .unwrap()
    }

    fn volume(name: &str, change: Value) -> Arc<PersistentVolume> {
        let whole = json!({"metadata": {"name": name}, "status": {"phase": "Available"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "capacity": {"storage": "2Gi"}}});
        let changed = k3_api::patch::merge::apply(whole, change).unwrap();
        Arc::new(serde_json::from_value(changed).unwrap())
    }

    fn of(uid: &str) -> Value {
        json!({"namespace": "shop", "name": "c", "uid": uid})
    }

    #[test]
    fn matches_volumes_to_claims() {
        let plain = json!({});
        for (claim_spec, volume_spec, is_good) in [
            (plain.clone(), plain.clone(), true),
            (
                plain.clone(),
                json!({"spec": {"capacity": {"storage": "2047Mi"}}}),
                false,
            ),
            (
                plain.clone(),
                json!({"spec": {"capacity": {"storage": "1Ti"}}}),
                true,
            ),
            (
                plain.clone(),
                json!({"spec": {"storageClassName": "slow"}}),
                false,
            ),
            (
                json!({"storageClassName": null}),
                json!({"spec": {"storageClassName": null}}),
                true,
            ),
            (
                json!({"storageClassName": ""}),
                json!({"spec": {"storageClassName": null}}),
                true,
            ),
            (plain.clone(), json!({"spec": {"volumeMode": "Block"}}), false),
            (json!({"volumeMode": "Filesystem"}), plain.clone(), true),
            (json!({"accessModes": ["ReadWriteMany"]}), plain.clone(), false),
            (
                plain.clone(),
                json!({"spec": {"accessModes": ["ReadWriteMany", "ReadWriteOnce"]}}),
                true,
            ),
            (plain.clone(), json!({"status": {"phase": "Pending"}}), false),
            (plain.clone(), json!({"status": {"phase": "Released"}}), false),
            (
                plain.clone(),
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                false,
            ),
            (
                json!({"selector": {"matchLabels": {"a": "b"}}}),
                plain.clone(),
                false,
            ),
            (
                json!({"selector": {"matchLabels": {"a": "b"}}}),
                json!({"metadata": {"labels": {"a": "b"}}}),
                true,
            ),
            (json!({"volumeAttributesClassName": "gold"}), plain.clone(), false),
            (plain.clone(), json!({"spec": {"claimRef": of("other")}}), false),
            // What is meant for the claim need not be free, nor of its class.
            (
                plain.clone(),
                json!({"spec": {"claimRef": of(""), "storageClassName": "slow"}}),
                true,
            ),
            (
                plain.clone(),
                json!({"spec": {"claimRef": of("u")}, "status": {"phase": "Bound"}}),
                true,
            ),
            (
                plain.clone(),
                json!({"spec": {"claimRef": of("u"), "capacity": {"storage": "1"}}}),
                false,
            ),
        ] {
            let volume = volume("v", volume_spec);
            assert_eq!(
                is_match(&claim(claim_spec), &volume, BindingMode::Immediate),
                is_good,
                "{volume:?}"
            );
        }
    }

    #[test]
    fn chooses_the_best_matching_volume() {
        let modes = json!(["ReadWriteOnce", "ReadOnlyMany"]);
        let all = || {
            [
                volume("big", json!({"spec": {"capacity": {"storage": "9Gi"}}})),
                volume("more", json!({"spec": {"accessModes": modes}})),
                volume("good", json!({"spec": {"capacity": {"storage": "3Gi"}}})),
                volume("alike", json!({"spec": {"capacity": {"storage": "3072Mi"}}})),
            ]
        };
        let name = |volume: Option<Arc<PersistentVolume>>| volume.map(|volume| volume.metadata.name.clone());
        let claim = claim(json!({}));
        assert_eq!(
            name(best_match(&claim, BindingMode::Immediate, all())),
            Some("alike".into())
        );
        let meant = volume(
            "meant",
            json!({"spec": {"capacity": {"storage": "99Gi"}, "claimRef": of("")}}),
        );
        let with = || all().into_iter().chain([meant.clone()]);
        assert_eq!(
            name(best_match(&claim, BindingMode::Immediate, with())),
            Some("meant".into())
        );
        assert_eq!(
            name(best_match(&claim, BindingMode::WaitForFirstConsumer, with())),
            Some("meant".into())
        );
        assert_eq!(
            name(best_match(&claim, BindingMode::WaitForFirstConsumer, all())),
            None
        );
    }

    #[test]
    fn reports_why_a_requested_volume_does_not_match() {
        let plain = json!({});
        for (claim_spec, volume_spec, why) in [
            (plain.clone(), plain.clone(), None),
            (
                plain.clone(),
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                Some("the volume is marked for deletion \"v\""),
            ),
            (
                plain.clone(),
                json!({"spec": {"capacity": {"storage": "1"}}}),
                Some("requested PV is too small"),
            ),
            (
                json!({"storageClassName": "x"}),
                plain.clone(),
                Some("storageClassName does not match"),
            ),
            (
                json!({"volumeMode": "Block"}),
                plain.clone(),
                Some("incompatible volumeMode"),
            ),
            (
                json!({"accessModes": ["ReadWriteMany"]}),
                plain.clone(),
                Some("incompatible accessMode"),
            ),
        ] {
            let reported = check_volume_satisfies_claim(&claim(claim_spec), &volume("v", volume_spec))
                .err()
                .map(|unfit| unfit.to_string());
            assert_eq!(reported.as_deref(), why);
        }
    }
}
