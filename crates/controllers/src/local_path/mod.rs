//! The local path provisioner: creates hostPath volumes for claims whose class has the provisioner `k3.io/local-path`.
//!
//! It is an external provisioner in upstream's terms that runs in this process: the PersistentVolume controller annotates the
//! claim, this one creates the volume, and the former binds it. A volume is a directory on the node chosen by the scheduler:
//! only pods on that node can use it. The kubelet creates the directory when a pod first uses it.
//!
//! When the claim is deleted and the class has reclaimPolicy `Delete`, the volume is deleted here. Its directory is on a node, where only
//! the kubelet can delete it.

mod decision;
#[cfg(test)]
mod tests;

use k3_workloads::{Node, PersistentVolume, PersistentVolumeClaim};
use kubecontroller::{
    Key,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    events::EventRecorder,
    informer::Delta,
    store::Store,
    writer::{ApiWriter, ObjectRef, is_already_exists},
};
use serde_json::{Value, json};

use self::decision::{ProvisioningDecision, decide, is_to_be_deleted, waits_for_provisioner};

use crate::{
    context::{ControllerContext, Task},
    event_message::EventMessage,
    objects::StorageClass,
    resource::{NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES},
    update::UpdateWithPatch,
    volume_binder::annotations::SELECTED_NODE,
};

/// Name of the provisioner in storage classes.
const NAME: &str = "k3.io/local-path";

// upstream: pkg/controller/volume/persistentvolume/pv_controller.go provisionClaimOperation; the provisioner itself is k3's own, after sig-storage-lib-external-provisioner
struct LocalPathProvisioner {
    writer: ApiWriter,
    recorder: EventRecorder,
    /// Parent directory of the volumes, on each node.
    directory: String,
    claims: Store<PersistentVolumeClaim>,
    classes: Store<StorageClass>,
    nodes: Store<Node>,
    volumes: Store<PersistentVolume>,
}

struct LocalPathDeleter {
    writer: ApiWriter,
    volumes: Store<PersistentVolume>,
}

/// No controller without a configured directory.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    match &context.cluster.local_volumes {
        Some(directory) => make_in(context, directory),
        None => Vec::new(),
    }
}

fn make_in(context: &ControllerContext, directory: &str) -> Vec<Task> {
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let volumes = context.informer::<PersistentVolume>(&PERSISTENT_VOLUMES);
    let classes = context.informer::<StorageClass>(&STORAGE_CLASSES);
    let nodes = context.informer::<Node>(&NODES);
    let provisioner = LocalPathProvisioner {
        writer: context.writer.clone(),
        recorder: context.recorder.clone().component(NAME),
        directory: directory.trim_end_matches('/').to_owned(),
        claims: claims.store().clone(),
        classes: classes.store().clone(),
        nodes: nodes.store().clone(),
        volumes: volumes.store().clone(),
    };
    let deleter = LocalPathDeleter {
        writer: context.writer.clone(),
        volumes: volumes.store().clone(),
    };
    let is_asked =
        |delta: &Delta<PersistentVolumeClaim>| delta.new().is_some_and(|claim| waits_for_provisioner(claim));
    let is_over =
        |delta: &Delta<PersistentVolume>| delta.new().is_some_and(|volume| is_to_be_deleted(volume));
    let making = context
        .controller("local-path-provisioner")
        .for_where(&claims, Predicate::new(is_asked))
        // They are read through their stores and have to be synced: a missing node is not chosen again.
        .watches(&classes, |_| Vec::new())
        .watches(&nodes, |_| Vec::new())
        .reconciler(provisioner);
    let removing = context
        .controller("local-path-provisioner-volumes")
        .for_where(&volumes, Predicate::new(is_over))
        .reconciler(deleter);
    vec![Box::new(making), Box::new(removing)]
}

// --- LocalPathProvisioner ---

impl Reconciler for LocalPathProvisioner {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(claim) = self
            .claims
            .get(&request.key)
            .filter(|claim| waits_for_provisioner(claim))
        else {
            return Ok(Outcome::Done);
        };
        let name = format!("pvc-{}", claim.metadata.uid);
        if self.volumes.get(&Key::new("", &name)).is_some() {
            return Ok(Outcome::Done);
        }
        let class = self.classes.get(&Key::new("", claim.class()));
        let node = claim.metadata.annotation(SELECTED_NODE);
        let node = node.and_then(|node| self.nodes.get(&Key::new("", node)));
        let record_event = |event: EventMessage| {
            event.record(
                &self.recorder,
                &claim.metadata.reference(&PERSISTENT_VOLUME_CLAIMS),
            );
        };
        match decide(&claim, class.as_deref(), node.as_deref()) {
            ProvisioningDecision::Leave => {}
            ProvisioningDecision::Fail(why) => record_event(EventMessage::warning("ProvisioningFailed", why)),
            ProvisioningDecision::Reschedule(why) => {
                record_event(EventMessage::warning("ProvisioningFailed", why));
                let meta = &claim.metadata;
                let patch = json!({"metadata": {"resourceVersion": meta.resource_version, "annotations": {SELECTED_NODE: null}}});
                let object_ref = ObjectRef::new(&PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &meta.name);
                self.writer.update_with_merge::<Value>(object_ref, &patch).await?;
            }
            ProvisioningDecision::Provision { host, policy } => {
                record_event(EventMessage::normal(
                    "Provisioning",
                    format_args!(
                        "External provisioner is provisioning volume for claim \"{}\"",
                        request.key
                    ),
                ));
                let volume = decision::volume(&claim, &name, &self.directory, &host, &policy);
                match self
                    .writer
                    .create::<Value>(&PERSISTENT_VOLUMES, "", &volume)
                    .await
                {
                    Err(error) if is_already_exists(&error) => return Ok(Outcome::Done),
                    written => written?,
                };
                let message = format_args!("Successfully provisioned volume {name}");
                record_event(EventMessage::normal("ProvisioningSucceeded", message));
            }
        }
        Ok(Outcome::Done)
    }
}

// --- LocalPathDeleter ---

impl Reconciler for LocalPathDeleter {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let volume = self.volumes.get(&request.key);
        if let Some(volume) = volume.filter(|volume| is_to_be_deleted(volume)) {
            let meta = &volume.metadata;
            let seen = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
            let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": seen});
            let object_ref = ObjectRef::new(&PERSISTENT_VOLUMES, "", &meta.name);
            self.writer.delete(object_ref, &options).await?;
        }
        Ok(Outcome::Done)
    }
}
