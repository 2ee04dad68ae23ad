//! Patches for accounts that may update but not patch: most controllers, for a status.

use k3_api::{
    patch::{json, merge},
    status::Status,
};
use kubecontroller::writer::{ApiWriter, ObjectRef};
use serde::de::DeserializeOwned;
use serde_json::Value;

// upstream: pkg/controller/replicaset/replica_set_utils.go updateReplicaSetStatus
/// Applies patches by reading, patching here and updating, with a conflict if the object changed meanwhile.
pub(crate) trait UpdateWithPatch {
    /// Applies a merge patch like [`ApiWriter::merge_patch`].
    fn update_with_merge<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        patch: &Value,
    ) -> impl Future<Output = kube::Result<T>> + Send;

    /// Applies a JSON patch like [`ApiWriter::json_patch`].
    fn update_with_json_patch<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        steps: &[Value],
    ) -> impl Future<Output = kube::Result<T>> + Send;
}

impl UpdateWithPatch for ApiWriter {
    async fn update_with_merge<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        patch: &Value,
    ) -> kube::Result<T> {
        let change = |object| merge::apply(object, patch.clone()).map_err(|status| to_api_error(&status));
        self.read_modify_update(object_ref, change).await
    }

    async fn update_with_json_patch<T: DeserializeOwned>(
        &self,
        object_ref: ObjectRef<'_>,
        steps: &[Value],
    ) -> kube::Result<T> {
        let patch = json::Patch::try_new(steps.into());
        let patch = patch.map_err(|error| to_api_error(&error.status()))?;
        let change = |object| patch.apply(object).map_err(|error| to_api_error(&error.status()));
        self.read_modify_update(object_ref, change).await
    }
}

/// An error in the form of a server response.
fn to_api_error(status: &Status) -> kube::Error {
    let reported = kube::core::Status::failure(&status.message, status.reason.word());
    kube::Error::Api(Box::new(reported.with_code(status.code)))
}
