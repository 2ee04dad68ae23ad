//! What pods refer to: config maps, secrets, tokens, claims, services.
//!
//! ```text
//! api      asks the API, with the rights of a node: by name, and only what its pods refer to
//! objects  config maps and secrets that were asked for, and how long they are good
//! tokens   tokens that were asked for, and when they are renewed
//! ```
//!
//! Promises:
//! - A pod that is new never gets what was read before it was seen: who changes a config map and then makes a pod finds the
//!   change in it. What is older than a minute is read again, what is immutable never is.
//! - Whatever many pods ask for at once is asked of the API once.
//! - What is gone is told as `None`. An error says that it is not known.
//! - A token is renewed when four fifths of its life are over, or it is a day old; while that fails, the old one goes on until
//!   it ends. Tokens are never logged.

mod api;
#[cfg(test)]
pub(crate) mod memory;
#[cfg(test)]
mod null;
mod objects;
#[cfg(test)]
mod tests;
mod tokens;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::{
    api::{
        certificates::v1::ClusterTrustBundle,
        core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service},
    },
    jiff::Timestamp,
};

pub use self::api::ApiSources;
use crate::PodIdentity;

/// Where pods' references lead.
#[async_trait]
pub trait Sources: Send + Sync + 'static {
    /// A config map.
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Option<Arc<ConfigMap>>, SourceError>;

    /// A secret.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Arc<Secret>>, SourceError>;

    /// A token of a service account for a pod, good for `audience` (the API's own if none is given) and, if it is new, for
    /// `seconds`.
    async fn token(
        &self,
        pod: &PodIdentity,
        account: &str,
        audience: Option<&str>,
        seconds: i64,
    ) -> Result<Token, SourceError>;

    /// A claim, as it is now.
    async fn claim(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, SourceError>;

    /// A volume, as it is now.
    async fn volume(&self, name: &str) -> Result<Option<Arc<PersistentVolume>>, SourceError>;

    /// The services of a namespace, and `default/kubernetes`.
    async fn services(&self, namespace: &str) -> Result<Vec<Arc<Service>>, SourceError>;

    /// All cluster trust bundles.
    async fn trust_bundles(&self) -> Result<Vec<Arc<ClusterTrustBundle>>, SourceError>;

    /// A pod is there: what it refers to is kept, and what was read before it was first seen is read again. Saying so again
    /// changes nothing.
    fn keep(&self, pod: &Pod);

    /// A pod is gone, and its tokens and references with it.
    fn forget(&self, pod: &PodIdentity);
}

/// A token, and its end.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// What is shown to servers.
    pub text: String,
    /// When it ends.
    pub expires: Timestamp,
}

/// Why something is not known. The words reach users in events and statuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The API refused, in its own words: most often because it does not know yet that a pod of this node refers to it.
    #[error("{0}")]
    Refused(String),
    /// Nobody answers.
    #[error("failed to get {what}: {reason}")]
    Unreachable {
        /// What was asked for.
        what: String,
        /// What came of it.
        reason: String,
    },
    /// Nobody answered in time.
    #[error("failed to sync {what} cache: timed out waiting for the condition")]
    Timeout {
        /// What was asked for.
        what: String,
    },
    /// A token cannot be had.
    #[error("failed to fetch token: {0}")]
    Token(String),
    /// A token has ended, and no other can be had.
    #[error("token of service account {account} expired and refresh failed: {reason}")]
    TokenExpired {
        /// Whose.
        account: String,
        /// Why there is no other.
        reason: String,
    },
}

// --- Token ---

impl fmt::Debug for Token {
    /// Without what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

// --- SourceError ---

impl SourceError {
    /// What an answer of the API means.
    fn of(what: &str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => SourceError::Refused(status.message.clone()),
            other => SourceError::Unreachable {
                what: what.to_owned(),
                reason: other.to_string(),
            },
        }
    }
}
