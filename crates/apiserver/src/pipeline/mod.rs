//! The pipeline of a request: stages in a fixed order, each with a file and a type.
//!
//! ```text
//! handler_chain  runs the stages, and turns errors, panics and timeouts into responses
//!
//! accept         route and deadline                                      -> AcceptedRequest
//! authenticate   the user who sends the request                          -> AuthenticatedRequest
//! audit          the audit context, if the audit policy matches          -> AuditedRequest
//! limit          a seat of the in-flight limit, or 429                   -> LimitedRequest
//! impersonate    the user whom the request acts as                       -> ImpersonatedRequest
//! authorize      RBAC and the node authorizer                            -> AuthorizedRequest
//! decode         verb, negotiated form, body                             -> DecodedRequest
//! dispatch       the verb of a resource, or a path that is no resource   -> response
//!
//! request_head      a request without its body
//! request_observer  metrics and logs of one request
//! request_id        audit IDs
//! rejection         how a stage ends a request
//! time_limit        request timeouts
//! inflight          limits on concurrent requests
//! watch_limits      limits on watches per user
//! body              request bodies, up to a limit
//! verb              the verb of a method and a path
//! deprecation       warnings about deprecated API versions
//! work_pool         threads for large requests
//! write_tasks       writes, which continue when their client disconnects
//! non_resource      health, metrics, discovery and other paths that are no resources
//! ```
//!
//! Promises: the output of a stage is the input of the next, and only the file of a stage can construct its output, so no stage
//! is skipped or reordered by accident. What must be known however a request ends (its audit context, seats and warning) is
//! with its [`RequestObserver`](request_observer::RequestObserver), which outlives the stages.
// upstream: staging/src/k8s.io/apiserver/pkg/server/config.go DefaultBuildHandlerChain

mod accept;
mod audit;
mod authenticate;
mod authorize;
mod body;
mod decode;
mod deprecation;
mod dispatch;
mod handler_chain;
mod impersonate;
mod inflight;
mod limit;
mod non_resource;
mod rejection;
mod request_head;
mod request_id;
mod request_observer;
mod time_limit;
mod verb;
mod watch_limits;
mod work_pool;
mod write_tasks;

pub(crate) use self::{
    accept::AcceptStage,
    audit::AuditingStage,
    authenticate::AuthenticationStage,
    authorize::AuthorizationStage,
    body::BodyMemory,
    decode::DecodeStage,
    dispatch::{DispatchStage, RestStorages},
    handler_chain::HandlerChain,
    impersonate::ImpersonationStage,
    inflight::InflightLimits,
    limit::LimitStage,
    non_resource::{ApiDocuments, ExtraEndpoints, NonResourceEndpoints, ProcessSetting, SettingError},
    verb::Verb,
    watch_limits::WatchLimits,
};
