//! The stage that limits how many requests are served at once.

use std::sync::Arc;

use k3_api::strategy::User;

use super::{
    accept::AcceptedRequest,
    audit::AuditedRequest,
    inflight::{InflightLimits, InflightPool},
    non_resource::is_health_endpoint,
    rejection::Rejection,
};
use crate::registry::AuditAnnotations;

/// Limits the requests in flight. Long-running requests and health endpoints are not counted.
pub(crate) struct LimitStage {
    inflight: Arc<InflightLimits>,
}

/// A request that may use the server: it has a seat, or needs none.
pub(super) struct LimitedRequest<'r> {
    request: AcceptedRequest<'r>,
    user: User,
    annotations: AuditAnnotations,
}

// --- LimitStage ---

impl LimitStage {
    pub(crate) fn new(inflight: Arc<InflightLimits>) -> Self {
        LimitStage { inflight }
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/server/filters/maxinflight.go WithMaxInFlightLimit
    pub(super) fn run<'r>(&self, request: AuditedRequest<'r>) -> Result<LimitedRequest<'r>, Rejection> {
        let (request, user, annotations) = request.into_parts();
        if !request.observer.is_long() && !is_health_endpoint(&request.head.path) {
            let pool = if request.head.is_read() {
                InflightPool::Reads
            } else {
                InflightPool::Writes
            };
            let Some(permit) = self.inflight.enter(pool, &user) else {
                request.observer.refused();
                return Err(Rejection::too_many_requests());
            };
            request.observer.hold_seats(permit);
        }
        Ok(LimitedRequest {
            request,
            user,
            annotations,
        })
    }
}

// --- LimitedRequest ---

impl<'r> LimitedRequest<'r> {
    pub(super) fn into_parts(self) -> (AcceptedRequest<'r>, User, AuditAnnotations) {
        (self.request, self.user, self.annotations)
    }
}
