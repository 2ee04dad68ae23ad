//! The stage that finds out whom a request acts as.

use std::sync::Arc;

use k3_api::status::Status;

use super::{accept::AcceptedRequest, limit::LimitedRequest};
use crate::{
    authz::{Authorizer, RequestIdentity},
    registry::AuditAnnotations,
};

/// Lets users act as others, if they may.
pub(crate) struct ImpersonationStage {
    authorizer: Arc<Authorizer>,
}

/// A request with the user whom it acts as.
pub(super) struct ImpersonatedRequest<'r> {
    request: AcceptedRequest<'r>,
    identity: RequestIdentity,
    annotations: AuditAnnotations,
}

// --- ImpersonationStage ---

impl ImpersonationStage {
    pub(crate) fn new(authorizer: Arc<Authorizer>) -> Self {
        ImpersonationStage { authorizer }
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/impersonation.go WithImpersonation
    pub(super) fn run<'r>(&self, request: LimitedRequest<'r>) -> Result<ImpersonatedRequest<'r>, Status> {
        let (request, user, annotations) = request.into_parts();
        let head = request.head;
        let identity = self.authorizer.impersonate(user, &head.headers, &head.info)?;
        request.observer.acts_as(&identity);
        Ok(ImpersonatedRequest {
            request,
            identity,
            annotations,
        })
    }
}

// --- ImpersonatedRequest ---

impl<'r> ImpersonatedRequest<'r> {
    pub(super) fn into_parts(self) -> (AcceptedRequest<'r>, RequestIdentity, AuditAnnotations) {
        (self.request, self.identity, self.annotations)
    }
}
