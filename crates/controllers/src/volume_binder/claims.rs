//! What is to be done about a claim.

use std::sync::Arc;

use super::{
    marks::{BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE},
    matching::check,
};
use crate::{
    event_message::EventMessage,
    objects::{BindingMode, ClaimPhase, PersistentVolume, PersistentVolumeClaim, StorageClass},
};

/// What is to be done about a claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClaimPlan {
    /// It and this volume belong together.
    Bind(Arc<PersistentVolume>),
    /// It is as it should be.
    Leave,
    /// It waits; people are told what for.
    Wait(Option<EventMessage>),
    /// It gets the default class.
    Assign(Box<str>),
    /// Somebody outside is to make a volume for it.
    Ask(Box<str>),
    /// Nobody can make a volume for it.
    Tell(EventMessage),
    /// Its volume is gone.
    Lose(EventMessage),
    /// It is bound to a volume that is another claim's. That was a mistake, and is tried again until it is mended.
    Fail(EventMessage, String),
}

/// What is seen around a claim.
pub(super) trait Sight {
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>>;
    /// The best volume for a claim that may wait for a node.
    fn best(&self, claim: &PersistentVolumeClaim, waits: bool) -> Option<Arc<PersistentVolume>>;
    fn class(&self, name: &str) -> Option<Arc<StorageClass>>;
    fn default_class(&self) -> Option<Arc<StorageClass>>;
    /// The names of the pods that use a claim and have no node yet.
    fn waiting_pods(&self, claim: &PersistentVolumeClaim) -> Vec<Box<str>>;
}

/// What is to be done about a claim.
pub(super) fn plan(claim: &PersistentVolumeClaim, sight: &impl Sight) -> ClaimPlan {
    let is_completed = claim.metadata.annotation(BIND_COMPLETED).is_some();
    match (is_completed, claim.spec.volume_name.is_empty()) {
        (true, true) => lose(
            claim,
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        ),
        (true, false) => keep(claim, sight),
        (false, true) => find(claim, sight),
        (false, false) => fulfil(claim, sight),
    }
}

/// It was bound, and should stay so.
fn keep(claim: &PersistentVolumeClaim, sight: &impl Sight) -> ClaimPlan {
    let Some(volume) = sight.volume(&claim.spec.volume_name) else {
        return lose(
            claim,
            "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        );
    };
    let owner = volume.spec.claim_ref.as_ref();
    if owner.is_none_or(|owner| owner.uid == claim.metadata.uid) {
        return ClaimPlan::Bind(volume);
    }
    lose(
        claim,
        "ClaimMisbound",
        "Two claims are bound to the same volume, this one is bound incorrectly",
    )
}

/// That is told once.
fn lose(claim: &PersistentVolumeClaim, reason: &str, message: &str) -> ClaimPlan {
    if claim.status.phase == ClaimPhase::Lost {
        return ClaimPlan::Leave;
    }
    ClaimPlan::Lose(EventMessage::warning(reason, message))
}

/// It asks for a volume by name.
fn fulfil(claim: &PersistentVolumeClaim, sight: &impl Sight) -> ClaimPlan {
    let Some(volume) = sight.volume(&claim.spec.volume_name) else {
        return ClaimPlan::Wait(None);
    };
    let name = &volume.metadata.name;
    let Some(owner) = &volume.spec.claim_ref else {
        return match check(claim, &volume) {
            Ok(()) => ClaimPlan::Bind(volume),
            Err(unfit) => {
                let message = format!("Cannot bind to requested volume {name:?}: {unfit}");
                ClaimPlan::Wait(Some(EventMessage::warning("VolumeMismatch", message)))
            }
        };
    };
    if volume.is_for(claim) {
        return ClaimPlan::Bind(volume);
    }
    let news = EventMessage::warning(
        "FailedBinding",
        format_args!("volume {name:?} already bound to a different claim."),
    );
    let meta = &claim.metadata;
    if meta.annotation(BOUND_BY_CONTROLLER).is_none() {
        return ClaimPlan::Wait(Some(news));
    }
    let why = format!(
        "invalid binding of claim \"{}/{}\" to volume {name:?}: volume already claimed by \"{}/{}\"",
        meta.namespace, meta.name, owner.namespace, owner.name
    );
    ClaimPlan::Fail(news, why)
}

/// It takes any volume that is good.
fn find(claim: &PersistentVolumeClaim, sight: &impl Sight) -> ClaimPlan {
    let class = match claim.class() {
        "" => None,
        name => sight.class(name),
    };
    let waits = class
        .as_ref()
        .is_some_and(|class| class.volume_binding_mode == BindingMode::WaitForFirstConsumer);
    if let Some(volume) = sight.best(claim, waits) {
        return ClaimPlan::Bind(volume);
    }
    if !claim.has_class()
        && let Some(class) = sight.default_class()
    {
        return ClaimPlan::Assign(class.metadata.name.clone());
    }
    if waits && claim.metadata.annotation(SELECTED_NODE).is_none() {
        return ClaimPlan::Wait(Some(waiting(&sight.waiting_pods(claim))));
    }
    match (claim.class(), class) {
        ("", _) => ClaimPlan::Wait(Some(EventMessage::normal(
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ))),
        (name, None) => refuse(format!("storageclass.storage.k8s.io {name:?} not found")),
        (_, Some(class)) => provision(&class.provisioner),
    }
}

/// What it waits for until it is known where it is needed.
fn waiting(pods: &[Box<str>]) -> EventMessage {
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

/// Who makes volumes of a class. What was once part of Kubernetes is a driver's now, which has another name.
fn provision(provisioner: &str) -> ClaimPlan {
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
        return ClaimPlan::Ask(provisioner.into());
    };
    if let Some((_, driver)) = DRIVERS.iter().find(|(name, _)| *name == plugin) {
        return ClaimPlan::Ask((*driver).into());
    }
    refuse(match plugin {
        "host-path" => {
            format!("Failed to create provisioner: provisioning in volume plugin {provisioner:?} is disabled")
        }
        "nfs" => "no provisionable volume plugin matched".to_owned(),
        _ => format!("no volume plugin matched name: {provisioner}"),
    })
}

fn refuse(why: String) -> ClaimPlan {
    ClaimPlan::Tell(EventMessage::warning("ProvisioningFailed", why))
}
