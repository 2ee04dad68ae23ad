//! Where revisions are: made, numbered anew, taken in, deleted.

use std::{collections::BTreeMap, sync::Arc};

use kubecontroller::{
    Key,
    controller::Request,
    informer::{Delta, Informer},
};
use serde_json::{Value, json};

use crate::{
    context::Context,
    family::{Family, Parent},
    objects::{ControllerRevision, Meta, Selector, Template},
    pods::making::NewMeta,
    resource::{CONTROLLER_REVISIONS, Resource},
    writer::{Made, Place, Writer, is_taken, only},
};

/// So much of the name of a set is in the names of its revisions.
const LONGEST_PREFIX: usize = 223;

/// The revisions of all sets of a kind.
pub(crate) struct Archive {
    writer: Writer,
    resource: &'static Resource,
    /// All revisions there are.
    pub(crate) revisions: Informer<ControllerRevision>,
    family: Family<ControllerRevision>,
}

/// A revision that is to be made.
pub(crate) struct New<'a> {
    /// The set.
    pub(crate) set: &'a Meta,
    /// Its template.
    pub(crate) template: &'a Template,
    /// The label that has the hash.
    pub(crate) hash_label: &'static str,
    /// The number.
    pub(crate) number: i64,
    /// How often a hash was that of another template before.
    pub(crate) collisions: Option<i32>,
}

/// The sets of a kind that have to be looked at when something happens to a revision. What a set made itself it knows; but
/// one that goes with a former set of the same name makes room for that of the set of now.
pub(crate) fn keys(resource: &Resource, delta: &Delta<ControllerRevision>) -> Vec<Key> {
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

// --- Archive ---

impl Archive {
    pub(crate) fn new(context: &Context, resource: &'static Resource) -> Self {
        let revisions = context.informer::<ControllerRevision>(&CONTROLLER_REVISIONS);
        Archive {
            writer: context.writer.clone(),
            resource,
            family: Family::new(revisions.store()),
            revisions,
        }
    }

    /// The revisions of a set.
    pub(crate) async fn claim(
        &self,
        set: &Meta,
        selector: &Selector,
    ) -> kube::Result<Vec<Arc<ControllerRevision>>> {
        let mut revisions = self.family.children(&set.uid);
        revisions.extend(self.family.orphans(&set.namespace));
        let parent = Parent {
            meta: set,
            resource: self.resource,
            children: &CONTROLLER_REVISIONS,
        };
        let matches = |revision: &ControllerRevision| selector.matches(&revision.metadata.labels);
        parent.claim(&self.writer, revisions, matches).await
    }

    /// Makes a revision, or finds the one that is there already. A name that another template has is avoided; also gives how
    /// often that was so.
    pub(crate) async fn make(
        &self,
        request: &Request,
        new: &New<'_>,
    ) -> kube::Result<(Arc<ControllerRevision>, Option<i32>)> {
        let meaning = new.template.meaning().map_err(kube::Error::SerdeError)?;
        let annotations = self.annotations(new.set).await?;
        let mut collisions = new.collisions;
        loop {
            let hash = new.template.hash(collisions).map_err(kube::Error::SerdeError)?;
            let name = name(&new.set.name, &hash);
            let body = self
                .body(new, &name, &hash, &annotations)
                .map_err(kube::Error::SerdeError)?;
            let namespace = &*new.set.namespace;
            let made = self
                .writer
                .create::<ControllerRevision>(&CONTROLLER_REVISIONS, namespace, &body);
            match made.await {
                Ok(made) => {
                    request.record_write(&self.revisions, &made.metadata.resource_version);
                    return Ok((Arc::new(made), collisions));
                }
                Err(error) if is_taken(&error) => {}
                Err(error) => return Err(error),
            }
            let there: ControllerRevision = self
                .writer
                .get(Place::new(&CONTROLLER_REVISIONS, namespace, &name))
                .await?;
            let template = there.template().and_then(|template| template.meaning());
            if template.is_ok_and(|template| template == meaning) {
                request.record_write(&self.revisions, &there.metadata.resource_version);
                return Ok((Arc::new(there), collisions));
            }
            collisions = Some(collisions.unwrap_or(0) + 1);
        }
    }

    /// Gives a revision another number.
    pub(crate) async fn renumber(
        &self,
        request: &Request,
        revision: &ControllerRevision,
        number: i64,
    ) -> kube::Result<()> {
        self.change(request, revision, json!({"revision": number})).await
    }

    /// Gives a revision another label.
    pub(crate) async fn label(
        &self,
        request: &Request,
        revision: &ControllerRevision,
        label: &str,
        value: &str,
    ) -> kube::Result<()> {
        let patch = json!({"metadata": {"labels": {label: value}}});
        self.change(request, revision, patch).await
    }

    async fn change(
        &self,
        request: &Request,
        revision: &ControllerRevision,
        mut patch: Value,
    ) -> kube::Result<()> {
        let meta = &revision.metadata;
        patch["metadata"]["resourceVersion"] = json!(meta.resource_version);
        let made: Made = self.writer.merge(place(revision), &patch).await?;
        request.record_write(&self.revisions, &made.metadata.resource_version);
        Ok(())
    }

    /// Deletes a revision.
    pub(crate) async fn remove(&self, revision: &ControllerRevision) -> kube::Result<()> {
        self.writer
            .delete(place(revision), &only(&revision.metadata.uid))
            .await
    }

    /// All annotations of a set, also the long ones that are not kept here.
    async fn annotations(&self, set: &Meta) -> kube::Result<BTreeMap<Box<str>, Box<str>>> {
        let place = Place::new(self.resource, &set.namespace, &set.name);
        let mut fresh: Value = self.writer.get(place).await?;
        let annotations = fresh["metadata"]["annotations"].take();
        let annotations: Option<_> = serde_json::from_value(annotations).map_err(kube::Error::SerdeError)?;
        Ok(annotations.unwrap_or_default())
    }

    fn body(
        &self,
        new: &New<'_>,
        name: &str,
        hash: &str,
        annotations: &BTreeMap<Box<str>, Box<str>>,
    ) -> serde_json::Result<Value> {
        let mut labels = new.template.labels();
        labels.insert(new.hash_label.into(), hash.into());
        let metadata = NewMeta {
            name: name.into(),
            labels,
            annotations: annotations.clone(),
            owner_references: vec![new.set.as_controller(self.resource)],
            ..NewMeta::default()
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

fn place(revision: &ControllerRevision) -> Place<'_> {
    let meta = &revision.metadata;
    Place::new(&CONTROLLER_REVISIONS, &meta.namespace, &meta.name)
}

fn name(set: &str, hash: &str) -> String {
    let kept = set.floor_char_boundary(LONGEST_PREFIX);
    format!("{}-{hash}", &set[..kept])
}
