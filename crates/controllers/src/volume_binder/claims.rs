//! Decides what to do about a claim.

use std::sync::Arc;

use k3_workloads::{ClaimPhase, PersistentVolume, PersistentVolumeClaim};

use super::{
    annotations::{BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE},
    matching::check_volume_satisfies_claim,
};
use crate::{
    event_message::EventMessage,
    objects::{BindingMode, StorageClass},
};

/// What to do about a claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClaimDecision {
    /// Bind it to this volume.
    Bind(Arc<PersistentVolume>),
    /// Nothing.
    Leave,
    /// It waits; the event names the reason.
    Wait(Option<EventMessage>),
    /// Set the default storage class.
    AssignDefaultClass(Box<str>),
    /// Ask an external provisioner.
    Provision(Box<str>),
    /// Provisioning is impossible.
    RecordEvent(EventMessage),
    /// Its volume was deleted: phase Lost.
    MarkLost(EventMessage),
    /// It is bound to a volume of another claim; retried until a user resolves the conflict.
    Fail(EventMessage, String),
}

/// What a decision about a claim depends on.
pub(super) trait ClaimEnvironment {
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>>;
    /// The best volume for a claim whose class has a volumeBindingMode.
    fn best_match(&self, claim: &PersistentVolumeClaim, mode: BindingMode) -> Option<Arc<PersistentVolume>>;
    fn class(&self, name: &str) -> Option<Arc<StorageClass>>;
    fn default_class(&self) -> Option<Arc<StorageClass>>;
    /// Names of unscheduled pods that use a claim.
    fn waiting_pods(&self, claim: &PersistentVolumeClaim) -> Vec<Box<str>>;
}

/// Decides what to do about a claim.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncClaim
pub(super) fn decide_claim(
    claim: &PersistentVolumeClaim,
    environment: &impl ClaimEnvironment,
) -> ClaimDecision {
    let is_completed = claim.metadata.annotation(BIND_COMPLETED).is_some();
    match (is_completed, claim.spec.volume_name.is_empty()) {
        (true, true) => mark_lost(
            claim,
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        ),
        (true, false) => sync_bound_claim(claim, environment),
        (false, true) => sync_claim_without_volume_name(claim, environment),
        (false, false) => sync_claim_with_volume_name(claim, environment),
    }
}

/// A bound claim.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncBoundClaim
fn sync_bound_claim(claim: &PersistentVolumeClaim, environment: &impl ClaimEnvironment) -> ClaimDecision {
    let Some(volume) = environment.volume(&claim.spec.volume_name) else {
        return mark_lost(
            claim,
            "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        );
    };
    let owner = volume.spec.claim_ref.as_ref();
    if owner.is_none_or(|owner| owner.uid == claim.metadata.uid) {
        return ClaimDecision::Bind(volume);
    }
    mark_lost(
        claim,
        "ClaimMisbound",
        "Two claims are bound to the same volume, this one is bound incorrectly",
    )
}

/// Recorded once, when the phase changes.
fn mark_lost(claim: &PersistentVolumeClaim, reason: &str, message: &str) -> ClaimDecision {
    if claim.status.phase == ClaimPhase::Lost {
        return ClaimDecision::Leave;
    }
    ClaimDecision::MarkLost(EventMessage::warning(reason, message))
}

/// An unbound claim that requests a volume by name.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncUnboundClaim
fn sync_claim_with_volume_name(
    claim: &PersistentVolumeClaim,
    environment: &impl ClaimEnvironment,
) -> ClaimDecision {
    let Some(volume) = environment.volume(&claim.spec.volume_name) else {
        return ClaimDecision::Wait(None);
    };
    let name = &volume.metadata.name;
    let Some(owner) = &volume.spec.claim_ref else {
        return match check_volume_satisfies_claim(claim, &volume) {
            Ok(()) => ClaimDecision::Bind(volume),
            Err(unfit) => {
                let message = format!("Cannot bind to requested volume {name:?}: {unfit}");
                ClaimDecision::Wait(Some(EventMessage::warning("VolumeMismatch", message)))
            }
        };
    };
    if volume.is_for(claim) {
        return ClaimDecision::Bind(volume);
    }
    let event = EventMessage::warning(
        "FailedBinding",
        format_args!("volume {name:?} already bound to a different claim."),
    );
    let meta = &claim.metadata;
    if meta.annotation(BOUND_BY_CONTROLLER).is_none() {
        return ClaimDecision::Wait(Some(event));
    }
    let why = format!(
        "invalid binding of claim \"{}/{}\" to volume {name:?}: volume already claimed by \"{}/{}\"",
        meta.namespace, meta.name, owner.namespace, owner.name
    );
    ClaimDecision::Fail(event, why)
}

/// An unbound claim that accepts any matching volume.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncUnboundClaim
fn sync_claim_without_volume_name(
    claim: &PersistentVolumeClaim,
    environment: &impl ClaimEnvironment,
) -> ClaimDecision {
    let class = match claim.class() {
        "" => None,
        name => environment.class(name),
    };
    let mode = class
        .as_ref()
        .map_or(BindingMode::Immediate, |class| class.volume_binding_mode);
    if let Some(volume) = environment.best_match(claim, mode) {
        return ClaimDecision::Bind(volume);
    }
    if !claim.has_class()
        && let Some(class) = environment.default_class()
    {
        return ClaimDecision::AssignDefaultClass(class.metadata.name.clone());
    }
    if mode == BindingMode::WaitForFirstConsumer && claim.metadata.annotation(SELECTED_NODE).is_none() {
        return ClaimDecision::Wait(Some(wait_for_consumer_event(&environment.waiting_pods(claim))));
    }
    match (claim.class(), class) {
        ("", _) => ClaimDecision::Wait(Some(EventMessage::normal(
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ))),
        (name, None) => provisioning_failed(format!("storageclass.storage.k8s.io {name:?} not found")),
        (_, Some(class)) => provision(&class.provisioner),
    }
}

/// The event of a claim with WaitForFirstConsumer.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go emitEventForUnboundDelayBindingClaim
fn wait_for_consumer_event(pods: &[Box<str>]) -> EventMessage {
    let message = match pods {
        [] => {
            let message = "waiting for first consumer to be created before binding";
            return EventMessage::normal("WaitForFirstConsumer", message);
        }
        [pod] => format!("waiting for pod {pod} to be scheduled"),
        pods => format!("waiting for pods {} to be scheduled", pods.join(",")),
    };
    EventMessage::normal("WaitForPodScheduled", message)
}

/// Finds the provisioner of a class. In-tree plugins were migrated to CSI drivers with other names.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go provisionClaim, findProvisionablePlugin
fn provision(provisioner: &str) -> ClaimDecision {
    const DRIVERS: [(&str, &str); 7] = [
        ("aws-ebs", "ebs.csi.aws.com"),
        ("azure-disk", "disk.csi.azure.com"),
        ("azure-file", "file.csi.azure.com"),
        ("cinder", "cinder.csi.openstack.org"),
        ("gce-pd", "pd.csi.storage.gke.io"),
        ("portworx-volume", "pxd.portworx.com"),
        ("vsphere-volume", "csi.vsphere.vmware.com"),
    ];
    let Some(plugin) = provisioner.strip_prefix("kubernetes.io/") else {
        return ClaimDecision::Provision(provisioner.into());
    };
    if let Some((_, driver)) = DRIVERS.iter().find(|(name, _)| *name == plugin) {
        return ClaimDecision::Provision((*driver).into());
    }
    provisioning_failed(match plugin {
        "host-path" => {
            format!("Failed to create provisioner: provisioning in volume plugin {provisioner:?} is disabled")
        }
        "nfs" => "no provisionable volume plugin matched".to_owned(),
        _ => format!("no volume plugin matched name: {provisioner}"),
    })
}

fn provisioning_failed(why: String) -> ClaimDecision {
    ClaimDecision::RecordEvent(EventMessage::warning("ProvisioningFailed", why))
}
