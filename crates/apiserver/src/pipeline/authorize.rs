//! The stage that decides whether a user may do what a request asks for.

use std::sync::Arc;

use k3_api::{status::Status, strategy::User};

use super::{accept::AcceptedRequest, impersonate::ImpersonatedRequest};
use crate::{authz::Authorizer, registry::AuditAnnotations};

/// Authorizes requests.
pub(crate) struct AuthorizationStage {
    authorizer: Arc<Authorizer>,
}

/// A request that its user may make.
pub(super) struct AuthorizedRequest<'r> {
    request: AcceptedRequest<'r>,
    user: User,
    annotations: AuditAnnotations,
}

// --- AuthorizationStage ---

impl AuthorizationStage {
    pub(crate) fn new(authorizer: Arc<Authorizer>) -> Self {
        AuthorizationStage { authorizer }
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/authorization.go WithAuthorization
    pub(super) fn run<'r>(&self, request: ImpersonatedRequest<'r>) -> Result<AuthorizedRequest<'r>, Status> {
        let (request, identity, annotations) = request.into_parts();
        let decision = self.authorizer.require(&request.head.info.action(&identity.user));
        request.observer.decided(&decision, &annotations);
        decision?;
        Ok(AuthorizedRequest {
            request,
            user: identity.user,
            annotations,
        })
    }
}

// --- AuthorizedRequest ---

impl<'r> AuthorizedRequest<'r> {
    pub(super) fn into_parts(self) -> (AcceptedRequest<'r>, User, AuditAnnotations) {
        (self.request, self.user, self.annotations)
    }
}
