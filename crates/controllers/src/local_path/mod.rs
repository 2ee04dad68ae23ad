//! Makes volumes out of folders of nodes: for claims whose class has the provisioner `k3.io/local-path`.
//!
//! It is what upstream calls an external provisioner, only that it runs here: the binder asks for a volume by a mark on the
//! claim, this makes one, and the binder binds it. A volume is a folder of the node that the scheduler has chosen, and stays
//! there: only pods on that node can use it. The folder is made by the node's agent when a pod first uses it.
//!
//! When the claim is gone and the class says `Delete`, the volume is deleted here. Its folder is on a node, where only the
//! node's agent can delete it.

mod plan;
#[cfg(test)]
mod tests;

use kubecontroller::{
    Key,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    events::Recorder,
    informer::Delta,
    store::Store,
};
use serde_json::{Value, json};

use self::plan::{Plan, is_done_with, is_for_us, plan};
use crate::{
    context::{ControllerContext, Task},
    event_message::EventMessage,
    objects::{Node, PersistentVolume, PersistentVolumeClaim, StorageClass},
    resource::{NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES},
    volume_binder::marks::SELECTED_NODE,
    writer::{ApiWriter, ObjectRef, is_already_exists},
};

/// The name by which classes ask for it.
const NAME: &str = "k3.io/local-path";

struct Maker {
    writer: ApiWriter,
    recorder: Recorder,
    /// Where the folders are, on each node.
    folder: String,
    claims: Store<PersistentVolumeClaim>,
    classes: Store<StorageClass>,
    nodes: Store<Node>,
    volumes: Store<PersistentVolume>,
}

struct Remover {
    writer: ApiWriter,
    volumes: Store<PersistentVolume>,
}

/// What runs; nothing, if the cluster has no place for such volumes.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    match &context.cluster.local_volumes {
        Some(folder) => make_in(context, folder),
        None => Vec::new(),
    }
}

fn make_in(context: &ControllerContext, folder: &str) -> Vec<Task> {
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let volumes = context.informer::<PersistentVolume>(&PERSISTENT_VOLUMES);
    let classes = context.informer::<StorageClass>(&STORAGE_CLASSES);
    let nodes = context.informer::<Node>(&NODES);
    let maker = Maker {
        writer: context.writer.clone(),
        recorder: context.recorder.clone().component(NAME),
        folder: folder.trim_end_matches('/').to_owned(),
        claims: claims.store().clone(),
        classes: classes.store().clone(),
        nodes: nodes.store().clone(),
        volumes: volumes.store().clone(),
    };
    let remover = Remover {
        writer: context.writer.clone(),
        volumes: volumes.store().clone(),
    };
    let is_asked = |delta: &Delta<PersistentVolumeClaim>| delta.new().is_some_and(|claim| is_for_us(claim));
    let is_over = |delta: &Delta<PersistentVolume>| delta.new().is_some_and(|volume| is_done_with(volume));
    let making = context
        .controller("local-path-provisioner")
        .for_where(&claims, Predicate::new(is_asked))
        // They are read, and have to be complete: a node that is not there is not chosen again.
        .watches(&classes, |_| Vec::new())
        .watches(&nodes, |_| Vec::new())
        .reconciler(maker);
    let removing = context
        .controller("local-path-provisioner-volumes")
        .for_where(&volumes, Predicate::new(is_over))
        .reconciler(remover);
    vec![Box::new(making), Box::new(removing)]
}

// --- Maker ---

impl Reconciler for Maker {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(claim) = self.claims.get(&request.key).filter(|claim| is_for_us(claim)) else {
            return Ok(Outcome::Done);
        };
        let name = format!("pvc-{}", claim.metadata.uid);
        if self.volumes.get(&Key::new("", &name)).is_some() {
            return Ok(Outcome::Done);
        }
        let class = self.classes.get(&Key::new("", claim.class()));
        let node = claim.metadata.annotation(SELECTED_NODE);
        let node = node.and_then(|node| self.nodes.get(&Key::new("", node)));
        let tell = |news: EventMessage| {
            news.record(
                &self.recorder,
                &claim.metadata.reference(&PERSISTENT_VOLUME_CLAIMS),
            );
        };
        match plan(&claim, class.as_deref(), node.as_deref()) {
            Plan::Leave => {}
            Plan::Refuse(why) => tell(EventMessage::warning("ProvisioningFailed", why)),
            Plan::ChooseAgain(why) => {
                tell(EventMessage::warning("ProvisioningFailed", why));
                let meta = &claim.metadata;
                let patch = json!({"metadata": {"resourceVersion": meta.resource_version, "annotations": {SELECTED_NODE: null}}});
                let object_ref = ObjectRef::new(&PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &meta.name);
                self.writer.update_with_merge::<Value>(object_ref, &patch).await?;
            }
            Plan::Make { host, policy } => {
                tell(EventMessage::normal(
                    "Provisioning",
                    format_args!(
                        "External provisioner is provisioning volume for claim \"{}\"",
                        request.key
                    ),
                ));
                let volume = plan::volume(&claim, &name, &self.folder, &host, &policy);
                match self
                    .writer
                    .create::<Value>(&PERSISTENT_VOLUMES, "", &volume)
                    .await
                {
                    Err(error) if is_already_exists(&error) => return Ok(Outcome::Done),
                    made => made?,
                };
                let message = format_args!("Successfully provisioned volume {name}");
                tell(EventMessage::normal("ProvisioningSucceeded", message));
            }
        }
        Ok(Outcome::Done)
    }
}

// --- Remover ---

impl Reconciler for Remover {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let volume = self.volumes.get(&request.key);
        if let Some(volume) = volume.filter(|volume| is_done_with(volume)) {
            let meta = &volume.metadata;
            let seen = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
            let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": seen});
            let object_ref = ObjectRef::new(&PERSISTENT_VOLUMES, "", &meta.name);
            self.writer.delete(object_ref, &options).await?;
        }
        Ok(Outcome::Done)
    }
}
