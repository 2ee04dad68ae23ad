//! Connections to nodes, pods and services.

use std::sync::Arc;

use k3_api::status::Status;

use super::connect_options;
use crate::{
    admission::Operation,
    authz::Authorizer,
    cache::WatchCaches,
    outgoing::NodeConnectionInfoGetter,
    registry::{
        RequestContext,
        admission::{AdmissionPhase, ObjectAdmission},
        request_context::Warnings,
    },
    request::CommitMode,
};

/// Serves logs, streams and requests that are passed on.
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/rest.go Connecter
pub(crate) struct ConnectStorage {
    pub(super) caches: Arc<WatchCaches>,
    pub(super) authorizer: Arc<Authorizer>,
    pub(super) nodes: Arc<NodeConnectionInfoGetter>,
    admission: Arc<ObjectAdmission>,
}

// --- ConnectStorage ---

impl ConnectStorage {
    pub(crate) fn new(
        caches: Arc<WatchCaches>,
        authorizer: Arc<Authorizer>,
        nodes: Arc<NodeConnectionInfoGetter>,
        admission: Arc<ObjectAdmission>,
    ) -> Self {
        ConnectStorage {
            caches,
            authorizer,
            nodes,
            admission,
        }
    }

    /// Takes a request for a connection through admission. Its options stand for an object.
    pub(super) async fn admit(&self, ctx: &RequestContext, path: &str) -> Result<(), Status> {
        let mut options = connect_options::options(ctx, path)?;
        let mut warnings = Warnings::default();
        for phase in [AdmissionPhase::Change, AdmissionPhase::Validate] {
            self.admission
                .admit_as(
                    (Operation::Connect, phase),
                    ctx,
                    &mut options,
                    CommitMode::Commit,
                    &mut warnings,
                )
                .await?;
        }
        Ok(())
    }
}
