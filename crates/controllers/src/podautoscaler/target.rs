//! The target of an autoscaler: an object of any kind with a scale subresource.

use std::sync::Arc;

use k3_api::strategy::Tree;
use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use kubecontroller::{
    resource::Resource,
    writer::{ApiWriter, ObjectRef, has_status_code},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use super::error::{FindResourceError, FindTargetError};
use crate::discovery::DiscoveryResult;

/// Attempts to write a scale after conflicts.
const MAX_ATTEMPTS: u32 = 5;

pub(super) struct TargetFinder {
    writer: ApiWriter,
    /// The discovery result, refreshed when a resource is missing.
    known: Mutex<Arc<DiscoveryResult>>,
}

/// A target with its scale.
pub(super) struct ScaleTarget {
    resource: Resource,
    scale: Value,
}

// --- TargetFinder ---

impl TargetFinder {
    pub(super) fn new(writer: &ApiWriter) -> Self {
        TargetFinder {
            writer: writer.clone(),
            known: Mutex::default(),
        }
    }

    /// The resource of a kind.
    pub(super) async fn resource(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Resource, FindResourceError> {
        let group = match api_version.split('/').collect::<Vec<_>>()[..] {
            [_] => "",
            [group, _] => group,
            _ => return Err(FindResourceError::GroupVersion(api_version.to_owned())),
        };
        let find = |discovered: &DiscoveryResult| {
            let served = discovered.resources.iter().map(|served| &served.resource);
            served
                .into_iter()
                .find(|resource| resource.group == group && resource.kind == kind)
                .cloned()
        };
        if let Some(found) = find(&self.known()) {
            return Ok(found);
        }
        let discovered = DiscoveryResult::fetch(&self.writer)
            .await
            .map_err(FindResourceError::Discovery)?;
        let found = find(&discovered);
        *self.known() = Arc::new(discovered);
        found.ok_or_else(|| FindResourceError::NoMatch {
            kind: kind.to_owned(),
            group: group.to_owned(),
        })
    }

    /// The target of an autoscaler.
    // upstream: pkg/controller/podautoscaler/horizontal.go scaleForResourceMappings
    pub(super) async fn find(
        &self,
        namespace: &str,
        reference: &CrossVersionObjectReference,
    ) -> Result<ScaleTarget, FindTargetError> {
        let api_version = reference.api_version.as_deref().unwrap_or_default();
        let resource = self.resource(api_version, &reference.kind).await?;
        let object_ref = ObjectRef::new(&resource, namespace, &reference.name).subresource("scale");
        match self.writer.get(object_ref).await {
            Ok(scale) => Ok(ScaleTarget { resource, scale }),
            Err(error) if has_status_code(&error, 404) => {
                // The resource may have changed; discovery is repeated.
                *self.known() = Arc::default();
                Err(not_found(error, &resource))
            }
            Err(error) => Err(FindTargetError::GetScale(error)),
        }
    }

    fn known(&self) -> MutexGuard<'_, Arc<DiscoveryResult>> {
        self.known.lock()
    }
}

/// Whether the object or its scale subresource is missing.
fn not_found(error: kube::Error, resource: &Resource) -> FindTargetError {
    let names_object = |error: &kube::Error| match error {
        kube::Error::Api(status) => status
            .details
            .as_ref()
            .is_some_and(|details| !details.name.is_empty()),
        _ => false,
    };
    if names_object(&error) {
        FindTargetError::GetScale(error)
    } else {
        FindTargetError::NoScale(resource.group_version_resource_text())
    }
}

// --- ScaleTarget ---

impl ScaleTarget {
    /// spec.replicas.
    pub(super) fn spec_replicas(&self) -> i32 {
        count(self.scale.at("spec"))
    }

    /// status.replicas.
    pub(super) fn status_replicas(&self) -> i32 {
        count(self.scale.at("status"))
    }

    /// status.selector.
    pub(super) fn selector(&self) -> &str {
        self.scale.at("status").text("selector")
    }

    /// Writes spec.replicas.
    pub(super) async fn scale(
        &mut self,
        writer: &ApiWriter,
        namespace: &str,
        replicas: i32,
    ) -> kube::Result<()> {
        let name = self.scale.at("metadata").text("name").to_owned();
        let mut tries = 0;
        loop {
            tries += 1;
            let object_ref = ObjectRef::new(&self.resource, namespace, &name).subresource("scale");
            self.scale["spec"]["replicas"] = replicas.into();
            match writer.update::<Value>(object_ref, &self.scale).await {
                Ok(_) => return Ok(()),
                Err(error) if has_status_code(&error, 409) && tries < MAX_ATTEMPTS => {
                    self.scale = writer.get(object_ref).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn count(part: &Value) -> i32 {
    let count = part.int("replicas").unwrap_or_default();
    i32::try_from(count).unwrap_or(i32::MAX)
}
