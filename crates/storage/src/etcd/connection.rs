//! Requests to the members of an etcd cluster, with failover.
//!
//! Guarantees: no request exceeds its deadline; requests move from a failed member to the next one and return only when
//! the others fail too; a non-idempotent request is not repeated once it may have been applied.

use std::time::Duration;

use prost::Message;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_stream::StreamExt;
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    metadata::MetadataValue,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{
    credentials::{Credentials, Token},
    failure::{EtcdFailure, EtcdRejection},
    messages::{
        AuthenticateRequest, AuthenticateResponse, WatchAction, WatchCreateRequest, WatchRequest,
        WatchResponse, method,
    },
    options::EtcdOptions,
};

/// Unlimited: callers request small pages.
const MAX_ANSWER: usize = i32::MAX as usize;

/// Flow-control window of a watch stream.
const WATCH_WINDOW: u32 = 1 << 20;

/// The members of an etcd cluster.
pub(super) struct EtcdConnection {
    /// Never empty.
    members: Vec<EtcdMember>,
    /// The index of the preferred member for requests and watches: the one after the last failed member.
    preferred: watch::Sender<usize>,
    credentials: Option<Credentials>,
    timeout: Duration,
    /// Dial timeout.
    dial_timeout: Duration,
}

struct EtcdMember {
    requests: Channel,
    /// A separate connection for watches: unread events of slow watches fill the window of their connection and must not delay
    /// responses to requests.
    watches: Channel,
}

/// Whether a request may be repeated when its response is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// The request is idempotent.
    Harmless,
    /// The request must not be applied twice.
    Never,
}

/// A watch stream that a member accepted.
pub(super) struct WatchStream {
    pub(super) responses: Streaming<WatchResponse>,
    pub(super) origin: WatchOrigin,
}

/// The member and the stream of a watch.
#[derive(Clone)]
pub(super) struct WatchOrigin {
    member: usize,
    token: Option<Token>,
}

// --- EtcdConnection ---

impl EtcdConnection {
    /// Connects lazily, with the first request. Must be called in a Tokio runtime.
    pub(super) fn new(endpoints: Vec<Endpoint>, options: &EtcdOptions) -> Self {
        let members = endpoints
            .into_iter()
            .map(|endpoint| EtcdMember {
                requests: endpoint.connect_lazy(),
                watches: endpoint
                    .initial_stream_window_size(WATCH_WINDOW)
                    // A watch must be throttled only by the window of its own stream.
                    .initial_connection_window_size(i32::MAX.cast_unsigned())
                    .connect_lazy(),
            })
            .collect();
        Self {
            members,
            preferred: watch::Sender::new(0),
            credentials: options.login.clone().map(Credentials::new),
            timeout: options.request_timeout,
            dial_timeout: options.dial_timeout,
        }
    }

    /// The deadline of a request that starts now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Sends a request and waits for the response.
    pub(super) async fn call<Q, R>(
        &self,
        method: &'static str,
        request: Q,
        repeat: RetryPolicy,
        deadline: Instant,
    ) -> Result<R, EtcdFailure>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let count = self.members.len();
        // A single member is tried twice too, because a broken connection is only detected by the next request.
        let attempts = count.max(2);
        let first = *self.preferred.borrow();
        let mut tried = 0;
        loop {
            let index = (first + tried) % count;
            let until = match repeat {
                // Leave time for the other members if this one hangs.
                RetryPolicy::Harmless => share(deadline, count.saturating_sub(tried)),
                RetryPolicy::Never => deadline,
            };
            tried += 1;
            let began = Instant::now();
            let failure = match self.ask(&self.members[index], method, &request, until).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let again = match failure {
                EtcdFailure::Refused(_) | EtcdFailure::Ours(_) => return Err(failure),
                EtcdFailure::Unsent(_) => true,
                EtcdFailure::Unknown(_) => repeat == RetryPolicy::Harmless,
            };
            self.avoid(index);
            // Only immediate failures are retried: after a dial timeout the next dial would time out too.
            let is_timed_out = count == 1 && began.elapsed() >= self.dial_timeout;
            if !again || is_timed_out || tried == attempts || Instant::now() >= deadline {
                return Err(failure);
            }
        }
    }

    /// Opens a watch at an available member.
    pub(super) async fn watch(&self, create: WatchCreateRequest) -> Result<WatchStream, EtcdFailure> {
        let deadline = self.deadline();
        let count = self.members.len();
        let first = *self.preferred.borrow();
        let mut tried = 0;
        loop {
            let index = (first + tried) % count;
            let until = share(deadline, count - tried);
            tried += 1;
            let failure = match self.open(index, create.clone(), until).await {
                Ok(stream) => return Ok(stream),
                Err(failure) => failure,
            };
            self.avoid(index);
            if tried == count {
                return Err(failure);
            }
        }
    }

    /// Prefers the next member after this one failed.
    pub(super) fn leave(&self, origin: &WatchOrigin) {
        self.avoid(origin.member);
    }

    /// Returns when requests have switched away from the member of a watch because it failed. A hanging member is detected by its
    /// requests earlier than by the keep-alive pings of its watches.
    pub(super) async fn left(&self, origin: &WatchOrigin) {
        let mut preferred = self.preferred.subscribe();
        // The sender lives as long as this connection.
        let _ = preferred.wait_for(|preferred| *preferred != origin.member).await;
    }

    /// Discards a rejected token, so that the next request authenticates again.
    pub(super) async fn discard(&self, origin: &WatchOrigin) {
        if let Some(credentials) = &self.credentials {
            credentials.discard(origin.token.as_ref()).await;
        }
    }

    fn avoid(&self, index: usize) {
        let next = (index + 1) % self.members.len();
        self.preferred.send_if_modified(|preferred| {
            // Another task may have replaced the token already.
            let ours = *preferred == index && next != index;
            if ours {
                *preferred = next;
            }
            ours
        });
    }

    async fn open(
        &self,
        index: usize,
        create: WatchCreateRequest,
        until: Instant,
    ) -> Result<WatchStream, EtcdFailure> {
        let member = &self.members[index];
        let token = self.token(member, until).await?;
        let create = WatchRequest {
            action: Some(WatchAction::Create(create)),
        };
        // etcd ends a watch when the request stream ends.
        let requests = tokio_stream::once(create).chain(tokio_stream::pending());
        let origin = WatchOrigin {
            member: index,
            token: token.clone(),
        };
        let sent = async {
            let mut grpc = ready(member.watches.clone()).await?;
            grpc.streaming(
                dress(requests, token),
                path(method::WATCH),
                ProstCodec::<WatchRequest, WatchResponse>::default(),
            )
            .await
        };
        match timeout_at(until, sent).await {
            Ok(Ok(response)) => Ok(WatchStream {
                responses: response.into_inner(),
                origin,
            }),
            Ok(Err(status)) => Err(EtcdFailure::new(status)),
            Err(_) => Err(EtcdFailure::late()),
        }
    }

    /// Sends a request to one member, and authenticates if required.
    async fn ask<Q, R>(
        &self,
        member: &EtcdMember,
        method: &'static str,
        request: &Q,
        until: Instant,
    ) -> Result<R, EtcdFailure>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let token = self.token(member, until).await?;
        let answer = send(member, method, request.clone(), token.clone(), until).await;
        match (&self.credentials, answer) {
            (Some(credentials), Err(failure)) if failure.rejection() == Some(EtcdRejection::LoginNeeded) => {
                credentials.discard(token.as_ref()).await;
                let token = self.token(member, until).await?;
                send(member, method, request.clone(), token, until).await
            }
            (_, answer) => answer,
        }
    }

    async fn token(&self, member: &EtcdMember, until: Instant) -> Result<Option<Token>, EtcdFailure> {
        let Some(credentials) = &self.credentials else {
            return Ok(None);
        };
        let authenticate = async |request: AuthenticateRequest| {
            let answer: AuthenticateResponse =
                send(member, method::AUTHENTICATE, request, None, until).await?;
            Ok(answer.token)
        };
        // The request itself was not sent, whether the authentication succeeded or not.
        match timeout_at(until, credentials.token(authenticate)).await {
            Ok(Err(EtcdFailure::Unknown(status))) => Err(EtcdFailure::Unsent(status)),
            Ok(answer) => answer,
            Err(_) => Err(EtcdFailure::Unsent(Status::deadline_exceeded(
                "no log-in in time",
            ))),
        }
    }
}

/// The end of the first of `parts` equal parts of the remaining time.
fn share(deadline: Instant, parts: usize) -> Instant {
    let left = deadline.saturating_duration_since(Instant::now());
    let parts = u32::try_from(parts.max(1)).expect("a cluster has few members");
    Instant::now() + left / parts
}

async fn send<Q, R>(
    member: &EtcdMember,
    method: &'static str,
    request: Q,
    token: Option<Token>,
    until: Instant,
) -> Result<R, EtcdFailure>
where
    Q: Message + 'static,
    R: Message + Default + 'static,
{
    let sent = async {
        let mut grpc = ready(member.requests.clone()).await?;
        grpc.unary(dress(request, token), path(method), ProstCodec::<Q, R>::default())
            .await
    };
    match timeout_at(until, sent).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(EtcdFailure::new(status)),
        Err(_) => Err(EtcdFailure::late()),
    }
}

async fn ready(channel: Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_ANSWER);
    grpc.ready()
        .await
        .map_err(|error| Status::from_error(Box::new(error)))?;
    Ok(grpc)
}

/// Adds the metadata of every request.
fn dress<T>(message: T, token: Option<Token>) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    // A member without a leader then fails immediately instead of delaying requests and watches.
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        metadata.insert("token", token);
    }
    request
}

fn path<T: std::str::FromStr<Err: std::fmt::Debug>>(method: &'static str) -> T {
    method.parse().expect("the methods are well-formed paths")
}
