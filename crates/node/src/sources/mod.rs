//! API objects that pods refer to: ConfigMaps, Secrets, service account tokens, claims, services, trust bundles.
//!
//! ```text
//! api             reads from the API with the permissions of a node: by name, and only what its pods refer to
//! object_store    cache of ConfigMaps and Secrets (upstream's ConfigMapManager and SecretManager)
//! token_manager   cache of service account tokens (upstream's token manager)
//! fake            in-memory implementation for tests
//! ```
//!
//! Promises:
//! - A new pod never gets an object that was read before the pod was registered: a user who updates a ConfigMap and then creates a
//!   pod finds the update in the pod. Objects older than a minute are read again, immutable ones never.
//! - Concurrent reads of one object send one request.
//! - A deleted object is `None`. An error means that its state is unknown.
//! - A token is refreshed after 80 % of its lifetime, or after a day. If that fails, the old token is used until it expires.
//!   Tokens are never logged.

mod api;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod null_fields;
mod object_store;
#[cfg(test)]
mod tests;
mod token_manager;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::{
    api::{
        certificates::v1::ClusterTrustBundle,
        core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service},
        node::v1::RuntimeClass,
    },
    jiff::Timestamp,
};

pub use self::{api::ApiObjectSources, token_manager::RequestTokenError};
use crate::PodIdentity;

/// Reads the API objects that pods refer to. `None` means that the object does not exist.
#[async_trait]
pub trait ObjectSources: Send + Sync + 'static {
    /// Reads a ConfigMap.
    async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<ConfigMap>>, ObjectSourceError>;

    /// Reads a Secret.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Arc<Secret>>, ObjectSourceError>;

    /// A token of a service account that is bound to a pod. Without `audience` it is valid for the API server. `seconds` is the
    /// requested lifetime of a new token.
    async fn service_account_token(
        &self,
        pod: &PodIdentity,
        account: &str,
        audience: Option<&str>,
        seconds: i64,
    ) -> Result<ServiceAccountToken, ObjectSourceError>;

    /// Reads a PersistentVolumeClaim, uncached.
    async fn persistent_volume_claim(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, ObjectSourceError>;

    /// Reads a PersistentVolume, uncached.
    async fn persistent_volume(&self, name: &str)
    -> Result<Option<Arc<PersistentVolume>>, ObjectSourceError>;

    /// Reads a RuntimeClass, uncached.
    async fn runtime_class(&self, name: &str) -> Result<Option<Arc<RuntimeClass>>, ObjectSourceError>;

    /// The services of a namespace, and `default/kubernetes`.
    async fn services(&self, namespace: &str) -> Result<Vec<Arc<Service>>, ObjectSourceError>;

    /// All ClusterTrustBundles.
    async fn cluster_trust_bundles(&self) -> Result<Vec<Arc<ClusterTrustBundle>>, ObjectSourceError>;

    /// Caches the objects that a pod refers to. Those that were read before the first registration are read again. Idempotent.
    // upstream: pkg/kubelet/util/manager/cache_based_manager.go RegisterPod
    fn register_pod(&self, pod: &Pod);

    /// Drops the references and the tokens of a pod.
    // upstream: pkg/kubelet/util/manager/cache_based_manager.go UnregisterPod
    fn unregister_pod(&self, pod: &PodIdentity);
}

/// A service account token.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceAccountToken {
    /// The JWT.
    pub token: String,
    /// Expiration time.
    pub expires: Timestamp,
}

/// Why an object cannot be read. The messages are shown to users, in events and container statuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectSourceError {
    /// The API server rejected the request. Most often the node authorizer has not yet seen that a pod of this node refers to the
    /// object.
    #[error("{0}")]
    Api(String),
    /// The API server cannot be reached.
    #[error("failed to get {resource}: {source}")]
    Unreachable {
        /// The kind of object.
        resource: String,
        /// Error of the connection.
        source: kube::Error,
    },
    /// The API server did not respond in time.
    #[error("failed to sync {resource} cache: timed out waiting for the condition")]
    Timeout {
        /// The kind of object.
        resource: String,
    },
    /// The token request failed.
    #[error("failed to fetch token: {0}")]
    TokenRequest(#[source] RequestTokenError),
    /// The cached token expired, and refreshing it failed.
    #[error("token of service account {account} expired and refresh failed: {source}")]
    TokenExpired {
        /// `namespace/name` of the service account.
        account: String,
        /// Error of the token request.
        source: RequestTokenError,
    },
}

// --- ServiceAccountToken ---

impl fmt::Debug for ServiceAccountToken {
    /// Omits the token, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountToken")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

// --- ObjectSourceError ---

impl ObjectSourceError {
    fn from_client_error(resource: &str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => ObjectSourceError::Api(status.message.clone()),
            other => ObjectSourceError::Unreachable {
                resource: resource.to_owned(),
                source: other,
            },
        }
    }
}
