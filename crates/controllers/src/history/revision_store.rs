//! Creates, renumbers, adopts and deletes ControllerRevisions.

use std::{collections::BTreeMap, sync::Arc};

use k3_workloads::ObjectMeta;
use kubecontroller::{
    Key,
    controller::Request,
    informer::{Delta, Informer},
    resource::Resource,
    selector::Selector,
    writer::{ApiWriter, ObjectRef, WrittenObject, delete_options_for_uid, is_already_exists},
};
use serde_json::{Value, json};

use crate::{
    context::ControllerContext,
    controller_ref_manager::{ControllerRefManager, OwnerIndex},
    objects::{ControllerRevision, Template},
    pods::pod_from_template::NewPodMeta,
    resource::CONTROLLER_REVISIONS,
};

/// Length of the set's name prefix in names of its revisions.
const MAX_PREFIX_LENGTH: usize = 223;

/// The ControllerRevisions of all sets of a kind.
pub(crate) struct RevisionStore {
    writer: ApiWriter,
    resource: &'static Resource,
    /// Informer for all revisions.
    pub(crate) revisions: Informer<ControllerRevision>,
    by_owner: OwnerIndex<ControllerRevision>,
}

/// A revision to create.
pub(crate) struct NewRevision<'a> {
    pub(crate) set: &'a ObjectMeta,
    pub(crate) template: &'a Template,
    /// Label with the hash.
    pub(crate) hash_label: &'static str,
    pub(crate) number: i64,
    /// Hash collisions so far.
    pub(crate) collisions: Option<i32>,
}

/// The sets of a kind to sync after a revision event. A set knows the revisions it created; but the deletion of a revision of
/// a previous set with the same name frees the name.
pub(crate) fn sets_to_sync(resource: &Resource, delta: &Delta<ControllerRevision>) -> Vec<Key> {
    let (old, new) = match delta {
        Delta::Sync { .. } | Delta::Added { .. } => return Vec::new(),
        Delta::Updated { old, new } | Delta::Replaced { old, new } => (Some(old), Some(new)),
        Delta::Deleted { last, .. } => (Some(last), None),
    };
    let owner = |revision: &Arc<ControllerRevision>| {
        let owner = revision.metadata.controller()?;
        (*owner.kind == *resource.kind).then(|| Key::new(&revision.metadata.namespace, &owner.name))
    };
    let mut keys: Vec<_> = [old, new].into_iter().flatten().filter_map(owner).collect();
    keys.dedup();
    keys
}

// --- RevisionStore ---

impl RevisionStore {
    pub(crate) fn new(context: &ControllerContext, resource: &'static Resource) -> Self {
        let revisions = context.informer::<ControllerRevision>(&CONTROLLER_REVISIONS);
        RevisionStore {
            writer: context.writer.clone(),
            resource,
            by_owner: OwnerIndex::new(revisions.store()),
            revisions,
        }
    }

    /// The revisions of a set.
    // upstream: pkg/controller/history/controller_history.go ListControllerRevisions, AdoptControllerRevision
    pub(crate) async fn claim(
        &self,
        set: &ObjectMeta,
        selector: &Selector,
    ) -> kube::Result<Vec<Arc<ControllerRevision>>> {
        let mut revisions = self.by_owner.children(&set.uid);
        revisions.extend(self.by_owner.orphans(&set.namespace));
        let parent = ControllerRefManager {
            meta: set,
            resource: self.resource,
            children: &CONTROLLER_REVISIONS,
        };
        let matches = |revision: &ControllerRevision| selector.matches(&revision.metadata.labels);
        parent.claim(&self.writer, revisions, matches).await
    }

    /// Creates a revision, or returns the existing one. A name used by another template is avoided; also returns the number of
    /// collisions.
    // upstream: pkg/controller/history/controller_history.go CreateControllerRevision
    pub(crate) async fn create(
        &self,
        request: &Request,
        new: &NewRevision<'_>,
    ) -> kube::Result<(Arc<ControllerRevision>, Option<i32>)> {
        let meaning = new.template.canonical_tree().map_err(kube::Error::SerdeError)?;
        let annotations = self.annotations(new.set).await?;
        let mut collisions = new.collisions;
        loop {
            let hash = new.template.hash(collisions).map_err(kube::Error::SerdeError)?;
            let name = revision_name(&new.set.name, &hash);
            let body = self
                .revision_body(new, &name, &hash, &annotations)
                .map_err(kube::Error::SerdeError)?;
            let namespace = &*new.set.namespace;
            let written = self
                .writer
                .create::<ControllerRevision>(&CONTROLLER_REVISIONS, namespace, &body);
            match written.await {
                Ok(written) => {
                    request.record_write(&self.revisions, &written.metadata.resource_version);
                    return Ok((Arc::new(written), collisions));
                }
                Err(error) if is_already_exists(&error) => {}
                Err(error) => return Err(error),
            }
            let there: ControllerRevision = self
                .writer
                .get(ObjectRef::new(&CONTROLLER_REVISIONS, namespace, &name))
                .await?;
            let template = there.template().and_then(|template| template.canonical_tree());
            if template.is_ok_and(|template| template == meaning) {
                request.record_write(&self.revisions, &there.metadata.resource_version);
                return Ok((Arc::new(there), collisions));
            }
            collisions = Some(collisions.unwrap_or(0) + 1);
        }
    }

    /// Changes the revision number.
    // upstream: pkg/controller/history/controller_history.go UpdateControllerRevision
    pub(crate) async fn renumber(
        &self,
        request: &Request,
        revision: &ControllerRevision,
        number: i64,
    ) -> kube::Result<()> {
        self.update_revision(request, revision, json!({"revision": number}))
            .await
    }

    /// Changes a label of a revision.
    pub(crate) async fn label(
        &self,
        request: &Request,
        revision: &ControllerRevision,
        label: &str,
        value: &str,
    ) -> kube::Result<()> {
        let patch = json!({"metadata": {"labels": {label: value}}});
        self.update_revision(request, revision, patch).await
    }

    async fn update_revision(
        &self,
        request: &Request,
        revision: &ControllerRevision,
        mut patch: Value,
    ) -> kube::Result<()> {
        let meta = &revision.metadata;
        patch["metadata"]["resourceVersion"] = json!(meta.resource_version);
        let written: WrittenObject = self.writer.merge_patch(revision_ref(revision), &patch).await?;
        request.record_write(&self.revisions, &written.metadata.resource_version);
        Ok(())
    }

    /// Deletes a revision.
    // upstream: pkg/controller/history/controller_history.go DeleteControllerRevision
    pub(crate) async fn delete(&self, revision: &ControllerRevision) -> kube::Result<()> {
        self.writer
            .delete(
                revision_ref(revision),
                &delete_options_for_uid(&revision.metadata.uid),
            )
            .await
    }

    /// All annotations of a set, including the long ones that informers drop.
    async fn annotations(&self, set: &ObjectMeta) -> kube::Result<BTreeMap<Box<str>, Box<str>>> {
        let object_ref = ObjectRef::new(self.resource, &set.namespace, &set.name);
        let mut fresh: Value = self.writer.get(object_ref).await?;
        let annotations = fresh["metadata"]["annotations"].take();
        let annotations: Option<_> = serde_json::from_value(annotations).map_err(kube::Error::SerdeError)?;
        Ok(annotations.unwrap_or_default())
    }

    fn revision_body(
        &self,
        new: &NewRevision<'_>,
        name: &str,
        hash: &str,
        annotations: &BTreeMap<Box<str>, Box<str>>,
    ) -> serde_json::Result<Value> {
        let mut labels = new.template.labels();
        labels.insert(new.hash_label.into(), hash.into());
        let metadata = NewPodMeta {
            name: name.into(),
            labels,
            annotations: annotations.clone(),
            owner_references: vec![new.set.as_controller(self.resource)],
            ..NewPodMeta::default()
        };
        Ok(json!({
            "apiVersion": CONTROLLER_REVISIONS.api_version(),
            "kind": CONTROLLER_REVISIONS.kind,
            "metadata": metadata,
            "data": ControllerRevision::patch(new.template)?,
            "revision": new.number,
        }))
    }
}

fn revision_ref(revision: &ControllerRevision) -> ObjectRef<'_> {
    let meta = &revision.metadata;
    ObjectRef::new(&CONTROLLER_REVISIONS, &meta.namespace, &meta.name)
}

// upstream: pkg/controller/history/controller_history.go ControllerRevisionName
fn revision_name(set: &str, hash: &str) -> String {
    let kept = set.floor_char_boundary(MAX_PREFIX_LENGTH);
    format!("{}-{hash}", &set[..kept])
}
