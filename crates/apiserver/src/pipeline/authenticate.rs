//! The stage that finds out who sends a request.

use std::sync::Arc;

use k3_api::{status::Status, strategy::User, time::Time};
use k3_task::Clock;

use super::{accept::AcceptedRequest, audit::AuditingStage};
use crate::authn::{Authenticator, Credentials};

/// Authenticates requests.
pub(crate) struct AuthenticationStage {
    authenticator: Arc<Authenticator>,
    clock: Clock,
}

/// A request of a known user.
pub(super) struct AuthenticatedRequest<'r> {
    pub(super) request: AcceptedRequest<'r>,
    pub(super) user: User,
    warning: Option<&'static str>,
}

// --- AuthenticationStage ---

impl AuthenticationStage {
    pub(crate) fn new(authenticator: Arc<Authenticator>, clock: Clock) -> Self {
        AuthenticationStage { authenticator, clock }
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/authentication.go WithAuthentication
    pub(super) async fn run<'r>(
        &self,
        request: AcceptedRequest<'r>,
        audit: &AuditingStage,
    ) -> Result<AuthenticatedRequest<'r>, Status> {
        let AcceptedRequest { head, peer, .. } = request;
        let credentials = Credentials {
            headers: &head.headers,
            path: &head.path,
            host: &head.host,
            peer,
            now: Time::from(self.clock.system_time()),
        };
        let authenticated = self.authenticator.authenticate(&credentials).await;
        let authenticated = authenticated.inspect_err(|status| {
            request.observer.authentication_failed();
            audit.reject_credentials(head, peer, request.observer, status.code);
        })?;
        request.observer.set_user(&authenticated.user);
        Ok(AuthenticatedRequest {
            request,
            user: authenticated.user,
            warning: authenticated.warning,
        })
    }
}

// --- AuthenticatedRequest ---

impl AuthenticatedRequest<'_> {
    /// A warning for the client about its credentials.
    pub(super) fn warning(&self) -> Option<&'static str> {
        self.warning
    }
}
