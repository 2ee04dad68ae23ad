//! The handler chain: runs the stages of a request, and turns errors, panics and timeouts into responses.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use http::{HeaderValue, Method, Request, Version, header};
use k3_api::status::Status;
use k3_task::panic_message;
use tokio::{sync::Notify, time};

use super::{
    accept::{AcceptStage, AcceptedRequest, RoutedRequest},
    audit::AuditingStage,
    authenticate::{AuthenticatedRequest, AuthenticationStage},
    authorize::AuthorizationStage,
    body::UnreadBody,
    decode::DecodeStage,
    dispatch::DispatchStage,
    impersonate::ImpersonationStage,
    limit::LimitStage,
    rejection::Rejection,
    request_head::RequestHead,
    request_observer::RequestObserver,
    time_limit,
};
use crate::{
    authn::{ConnectionPeer, is_kubectl_rejection},
    http::{self as web, HttpResponse, RequestBody},
    registry::warn,
};

/// Handles all requests: its stages, in the order in which they run.
pub(crate) struct HandlerChain {
    pub accept: AcceptStage,
    pub authenticate: AuthenticationStage,
    pub audit: AuditingStage,
    pub limit: LimitStage,
    pub impersonate: ImpersonationStage,
    pub authorize: AuthorizationStage,
    pub decode: DecodeStage,
    pub dispatch: DispatchStage,
}

// --- HandlerChain ---

impl HandlerChain {
    /// Handles a request. `end` is notified when the connection must not be reused.
    // upstream: staging/src/k8s.io/apiserver/pkg/server/config.go DefaultBuildHandlerChain; the order of the filters: request info, audit ID, panic recovery
    pub(crate) async fn handle(
        &self,
        request: Request<RequestBody>,
        peer: &ConnectionPeer,
        end: &Notify,
    ) -> HttpResponse {
        let (parts, body) = request.into_parts();
        let head = RequestHead::read(parts, peer);
        let routed = self.accept.route(&head).await;
        let mut observer = self.accept.observe(&head, &routed);
        let unread = UnreadBody::default();
        let body = unread.keep(body);
        let answered = self.run(routed, &head, peer, body, &mut observer).await;
        let mut answer = match answered {
            Ok(answer) => answer,
            // As text: kubectl shows the message of a Status only for resources, and it asks for discovery first.
            Err(status) if is_kubectl_rejection(&status) => web::text(status.code, status.message.clone()),
            Err(status) => web::status(&status, head.error_format(), head.layout),
        };
        unread.discard(&head.headers).await;
        if let Some(warning) = observer.take_warning() {
            warn(&mut answer, &[warning]);
        }
        // HTTP/2 multiplexes requests at no cost to the client, so an unauthenticated client could exhaust the server with one
        // connection: it must reconnect instead.
        if head.version == Version::HTTP_2 && !observer.is_authenticated() {
            end.notify_one();
        }
        finish(observer.answered(answer), &head)
    }

    /// Runs all stages within the deadline of the request; a panic becomes 500, a timeout becomes 504.
    // upstream: staging/src/k8s.io/apiserver/pkg/server/filters/timeout.go WithTimeoutForNonLongRunningRequests
    async fn run(
        &self,
        routed: RoutedRequest,
        head: &RequestHead,
        peer: &ConnectionPeer,
        body: RequestBody,
        observer: &mut RequestObserver,
    ) -> Result<HttpResponse, Status> {
        let request = self.accept.run(routed, head, peer, body, observer, &self.audit)?;
        let deadline = request.deadline();
        let answered = AssertUnwindSafe(self.run_accepted(request)).catch_unwind();
        let answered = match deadline {
            None => Ok(answered.await),
            Some(deadline) => time::timeout_at(deadline, answered).await,
        };
        match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(panic)) => {
                let why = panic_message(&*panic);
                tracing::error!(method = %head.method, path = head.path, id = ?observer.id(), why, "request handler panicked");
                observer.panicked(why);
                let message = "This request caused apiserver to panic. Look in the logs for details.";
                Err(Status::internal_error(message))
            }
            Err(_) => {
                observer.timed_out();
                Err(time_limit::over())
            }
        }
    }

    async fn run_accepted(&self, request: AcceptedRequest<'_>) -> Result<HttpResponse, Status> {
        let request = self.authenticate.run(request, &self.audit).await?;
        let warning = request.warning();
        let mut answer = match self.run_authenticated(request).await {
            Ok(answer) => answer,
            Err(Rejection::Response(answer)) => *answer,
            Err(Rejection::Status(status)) => return Err(status),
        };
        if let Some(warning) = warning {
            warn(&mut answer, &[warning.to_owned()]);
        }
        Ok(answer)
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/server/config.go DefaultBuildHandlerChain; filters WithAudit, WithMaxInFlightLimit, WithImpersonation, WithAuthorization
    async fn run_authenticated(&self, request: AuthenticatedRequest<'_>) -> Result<HttpResponse, Rejection> {
        let request = self.audit.run(request);
        let request = self.limit.run(request)?;
        let request = self.impersonate.run(request)?;
        let request = self.authorize.run(request)?;
        let request = self.decode.run(request).await?;
        self.dispatch.run(request).await
    }

    /// Ends all watches: clients restart them elsewhere or later.
    pub(crate) fn end_watches(&self) {
        self.accept.end_watches();
    }

    /// Waits for the writes that are under way.
    pub(crate) async fn end_writes(&self, patience: Duration) {
        self.dispatch.end_writes(patience).await;
    }

    /// A client did not get as far as a request.
    pub(crate) fn tls_failed(&self) {
        self.accept.tls_failed();
    }
}

/// Adds the headers of every response.
fn finish(mut answer: HttpResponse, head: &RequestHead) -> HttpResponse {
    let headers = answer.headers_mut();
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-cache, private"),
        );
    }
    if head.method == Method::HEAD {
        *answer.body_mut() = web::ResponseBody::Empty;
    }
    web::compress(answer, &head.headers)
}
