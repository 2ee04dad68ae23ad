//! The first stage: the route of a request, and its deadline.

use std::{sync::Arc, time::Duration};

use k3_api::status::Status;
use tokio::time::Instant;

use super::{
    audit::AuditingStage, request_head::RequestHead, request_id::RequestIds,
    request_observer::RequestObserver, time_limit,
};
use crate::{
    authn::ConnectionPeer,
    cache::WatchCaches,
    http::RequestBody,
    metrics::Metrics,
    registry::ensure_recent,
    request::{Route, route},
};

/// Finds the route of a request, and decides until when it is answered.
pub(crate) struct AcceptStage {
    caches: Arc<WatchCaches>,
    metrics: Arc<Metrics>,
    request_ids: RequestIds,
    max_request_time: Duration,
}

/// The route of a request.
pub(super) struct RoutedRequest {
    route: Route,
    /// The error if the caches are not known to be recent: then the route is not certain, and only observed.
    staleness: Result<(), Status>,
}

/// A request with a route and a deadline. Its user is not known.
pub(super) struct AcceptedRequest<'r> {
    pub(super) head: &'r RequestHead,
    pub(super) peer: &'r ConnectionPeer,
    pub(super) observer: &'r mut RequestObserver,
    pub(super) route: Route,
    pub(super) body: RequestBody,
    deadline: Option<Instant>,
}

// --- AcceptStage ---

impl AcceptStage {
    pub(crate) fn new(caches: Arc<WatchCaches>, metrics: Arc<Metrics>, max_request_time: Duration) -> Self {
        AcceptStage {
            caches,
            metrics,
            request_ids: RequestIds::new(),
            max_request_time,
        }
    }

    /// Finds the route of a request. The caches are brought up to date before: which resources exist depends on the stored
    /// CustomResourceDefinitions.
    pub(super) async fn route(&self, head: &RequestHead) -> RoutedRequest {
        let staleness = ensure_recent(&self.caches, &head.path).await;
        RoutedRequest {
            route: route(&head.path, self.caches.definitions()),
            staleness,
        }
    }

    /// Starts to observe a request.
    pub(super) fn observe(&self, head: &RequestHead, routed: &RoutedRequest) -> RequestObserver {
        let id = self.request_ids.of(&head.headers);
        RequestObserver::begin(id, head, &routed.route, &self.metrics)
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go WithRequestDeadline
    pub(super) fn run<'r>(
        &self,
        routed: RoutedRequest,
        head: &'r RequestHead,
        peer: &'r ConnectionPeer,
        body: RequestBody,
        observer: &'r mut RequestObserver,
        audit: &AuditingStage,
    ) -> Result<AcceptedRequest<'r>, Status> {
        routed.staleness?;
        let deadline = if observer.is_long() {
            None
        } else {
            let limit =
                time_limit::of(head.query.text("timeout"), self.max_request_time).inspect_err(|status| {
                    audit.reject(head, peer, observer, status.code, &status.message);
                })?;
            Some(observer.began() + limit)
        };
        Ok(AcceptedRequest {
            head,
            peer,
            observer,
            route: routed.route,
            body,
            deadline,
        })
    }

    /// A client did not get as far as a request.
    pub(super) fn tls_failed(&self) {
        self.metrics.tls_errors.count();
    }

    /// Ends all watches: clients restart them elsewhere or later.
    pub(super) fn end_watches(&self) {
        self.caches.close();
    }
}

// --- AcceptedRequest ---

impl AcceptedRequest<'_> {
    /// When the request is answered at the latest; `None` if it is long-running.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}
