//! Creates, updates and deletes EndpointSlices.

use std::{collections::BTreeMap, sync::Arc};

use k3_workloads::{OwnerReference, StringMap};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Key,
    controller::Request,
    informer::{Delta, Informer},
    store::{Index, Store},
    writer::{
        ApiWriter, ObjectRef, WrittenObject, delete_options_for_uid, error_message, has_status_code,
        is_namespace_terminating,
    },
};
use serde_json::json;

use crate::{
    objects::{Endpoint, EndpointSlice, SlicePort},
    patch_values,
    resource::ENDPOINT_SLICES,
    update::UpdateWithPatch,
};

/// The label that names the service of a slice.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label with the managing controller of a slice.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Slices by Service and managing controller. The index is shared.
pub(crate) struct SlicesByService {
    by: Index<EndpointSlice>,
}

/// The desired state of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DesiredSlice {
    pub(crate) address_type: Box<str>,
    pub(crate) ports: Vec<SlicePort>,
    pub(crate) endpoints: Vec<Endpoint>,
}

/// Changes to slices.
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceChanges {
    pub(crate) create: Vec<DesiredSlice>,
    pub(crate) update: Vec<(Arc<EndpointSlice>, DesiredSlice)>,
    pub(crate) delete: Vec<Arc<EndpointSlice>>,
}

/// Writes the slices of one service.
pub(crate) struct EndpointSliceWriter<'a> {
    pub(crate) writer: &'a ApiWriter,
    pub(crate) slices: &'a Informer<EndpointSlice>,
    pub(crate) request: &'a Request,
    /// The owner, for messages.
    pub(crate) whose: String,
    /// What they belong to.
    pub(crate) owner: OwnerReference,
    /// What their names begin with.
    pub(crate) prefix: String,
    pub(crate) labels: BTreeMap<Box<str>, Box<str>>,
    pub(crate) notes: SliceAnnotations,
}

/// The annotations of slices.
pub(crate) enum SliceAnnotations {
    /// The trigger time; other annotations are kept.
    Trigger(Option<Timestamp>),
    /// The complete annotations.
    All(BTreeMap<Box<str>, Box<str>>),
}

/// A failed write, with a message.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct EndpointSliceWriteError {
    pub(crate) message: String,
    pub(crate) source: kube::Error,
}

/// The services that a change of a slice concerns, if it is or was looked after by that manager.
pub(crate) fn concerned(delta: &Delta<EndpointSlice>, manager: &str) -> Vec<Key> {
    let states = [delta.old(), delta.new()];
    let ours = states.into_iter().flatten().filter_map(|slice| {
        let meta = &slice.metadata;
        let is_ours = meta.label(MANAGED_BY) == Some(manager);
        let service = meta.label(SERVICE_NAME).filter(|name| !name.is_empty())?;
        is_ours.then(|| Key::new(&meta.namespace, service))
    });
    let mut keys: Vec<Key> = ours.collect();
    keys.dedup();
    keys
}

// --- SlicesByService ---

impl SlicesByService {
    /// The index of a store.
    pub(crate) fn new(store: &Store<EndpointSlice>) -> Self {
        let by = store.shared_index("service", |slice| {
            let meta = &slice.metadata;
            let labels = meta.label(SERVICE_NAME).zip(meta.label(MANAGED_BY));
            let object_ref =
                labels.map(|(service, manager)| slice_index_key(&meta.namespace, service, manager));
            object_ref.into_iter().collect()
        });
        SlicesByService { by }
    }

    /// Slices of a Service and managing controller, by name. Terminating ones are excluded.
    pub(crate) fn get(&self, service: &Key, manager: &str) -> Vec<Arc<EndpointSlice>> {
        let mut slices = self
            .by
            .get(&slice_index_key(service.namespace(), service.name(), manager));
        slices.retain(|slice| !slice.metadata.is_terminating());
        slices
    }
}

fn slice_index_key(namespace: &str, service: &str, manager: &str) -> String {
    format!("{namespace}/{service}/{manager}")
}

// --- SliceChanges ---

impl SliceChanges {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.create.is_empty() && self.update.is_empty() && self.delete.is_empty()
    }

    /// Reuses slices that would be deleted for new ones, so that consumers see one change and not two.
    // upstream: pkg/controller/endpointslicemirroring/reconciler_helpers.go recycleSlices
    pub(crate) fn recycle(&mut self, may_be_used: impl Fn(&EndpointSlice, &DesiredSlice) -> bool) {
        let mut deleted = Vec::new();
        for slice in self.delete.drain(..) {
            match self.create.pop_if(|desired| may_be_used(&slice, desired)) {
                Some(desired) => self.update.push((slice, desired)),
                None => deleted.push(slice),
            }
        }
        self.delete = deleted;
    }
}

// --- EndpointSliceWriter ---

impl EndpointSliceWriter<'_> {
    /// Carries out the changes, up to the first failure. New slices are created first, so that no endpoint is missing in between.
    // upstream: staging/src/k8s.io/endpointslice/reconciler.go finalize
    pub(crate) async fn write(&self, changes: &SliceChanges) -> Result<(), EndpointSliceWriteError> {
        for desired in &changes.create {
            match self.create(desired).await {
                Ok(written) => self.wrote(&written),
                // The namespace is terminating: nothing to retry.
                Err(error) if is_namespace_terminating(&error) => return Ok(()),
                Err(error) => return Err(self.write_error("create EndpointSlice", error)),
            }
        }
        for (slice, desired) in &changes.update {
            let updated = self.update(slice, desired).await;
            let name = &slice.metadata.name;
            let updated =
                updated.map_err(|error| self.write_error(&format!("update {name} EndpointSlice"), error))?;
            self.wrote(&updated);
        }
        for slice in &changes.delete {
            self.delete(slice).await?;
        }
        Ok(())
    }

    /// Deletes a slice.
    pub(crate) async fn delete(&self, slice: &EndpointSlice) -> Result<(), EndpointSliceWriteError> {
        let meta = &slice.metadata;
        let object_ref = ObjectRef::new(&ENDPOINT_SLICES, &meta.namespace, &meta.name);
        match self
            .writer
            .delete(object_ref, &delete_options_for_uid(&meta.uid))
            .await
        {
            // Another slice has the name: this one is already deleted.
            Err(error) if !has_status_code(&error, 409) => {
                Err(self.write_error(&format!("delete {} EndpointSlice", meta.name), error))
            }
            _ => Ok(()),
        }
    }

    // upstream: staging/src/k8s.io/endpointslice/utils.go newEndpointSlice
    async fn create(&self, desired: &DesiredSlice) -> kube::Result<WrittenObject> {
        let namespace = self.request.key.namespace();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": self.prefix,
                "namespace": namespace,
                "labels": self.labels,
                "annotations": self.notes.after(&StringMap::default()),
                "ownerReferences": [self.owner],
            },
            "addressType": desired.address_type,
            "endpoints": desired.endpoints,
            "ports": desired.ports,
        });
        self.writer.create(&ENDPOINT_SLICES, namespace, &slice).await
    }

    async fn update(&self, slice: &EndpointSlice, desired: &DesiredSlice) -> kube::Result<WrittenObject> {
        let meta = &slice.metadata;
        let object_ref = ObjectRef::new(&ENDPOINT_SLICES, &meta.namespace, &meta.name);
        let mut patch = json!({
            "metadata": {
                "resourceVersion": meta.resource_version,
                "labels": patch_values::replacing_map(&meta.labels, &self.labels),
                "annotations": patch_values::replacing_map(&meta.annotations, &self.notes.after(&meta.annotations)),
            },
            "endpoints": desired.endpoints,
            "ports": desired.ports,
        });
        if !meta.is_controlled_by(&self.owner.uid) {
            patch["metadata"]["ownerReferences"] = json!([self.owner]);
        }
        self.writer.update_with_merge(object_ref, &patch).await
    }

    fn wrote(&self, written: &WrittenObject) {
        self.request
            .record_write(self.slices, &written.metadata.resource_version);
    }

    fn write_error(&self, what: &str, source: kube::Error) -> EndpointSliceWriteError {
        let message = format!("failed to {what} for {}: {}", self.whose, error_message(&source));
        EndpointSliceWriteError { message, source }
    }
}

// --- SliceAnnotations ---

impl SliceAnnotations {
    /// The new annotations.
    fn after(&self, old: &StringMap) -> BTreeMap<Box<str>, Box<str>> {
        match self {
            SliceAnnotations::All(notes) => notes.clone(),
            SliceAnnotations::Trigger(time) => {
                let mut notes = old.to_map();
                super::trigger_time::mark(&mut notes, *time);
                notes
            }
        }
    }
}
