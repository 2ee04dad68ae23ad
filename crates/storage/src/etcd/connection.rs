//! Requests to whichever member of the cluster answers.
//!
//! Promises: no request takes longer than its deadline; a member that fails is left for the next one,
//! and requested again only when the others fail too; a request that must not happen twice is not sent
//! again once it may have happened.

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

/// etcd sends as much as it was requested; pages are kept small by those who ask.
const MAX_ANSWER: usize = i32::MAX as usize;

/// What a watch may send ahead of being read.
const WATCH_WINDOW: u32 = 1 << 20;

/// The members of an etcd cluster.
pub(super) struct EtcdConnection {
    /// Never empty.
    members: Vec<EtcdMember>,
    /// The index of the member that is requested first and serves the watches: the next one after the last
    /// that failed.
    preferred: watch::Sender<usize>,
    credentials: Option<Credentials>,
    timeout: Duration,
    /// How long a connection may take to open.
    dial_timeout: Duration,
}

struct EtcdMember {
    requests: Channel,
    /// Apart from the requests: what slow watches have not read fills the window of their connection,
    /// and must not hold up the answers to requests.
    watches: Channel,
}

/// Whether a request may be sent again when the answer to it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// Doing it twice is the same as doing it once.
    Harmless,
    /// It must not happen twice.
    Never,
}

/// A watch that a member has accepted to look at.
pub(super) struct WatchStream {
    pub(super) responses: Streaming<WatchResponse>,
    pub(super) origin: WatchOrigin,
}

/// Who serves a watch, and to whom.
#[derive(Clone)]
pub(super) struct WatchOrigin {
    member: usize,
    token: Option<Token>,
}

// --- EtcdConnection ---

impl EtcdConnection {
    /// Connects when the first request is made. Must be called inside a Tokio runtime.
    pub(super) fn new(endpoints: Vec<Endpoint>, options: &EtcdOptions) -> Self {
        let members = endpoints
            .into_iter()
            .map(|endpoint| EtcdMember {
                requests: endpoint.connect_lazy(),
                watches: endpoint
                    .initial_stream_window_size(WATCH_WINDOW)
                    // Only the windows of the streams are to hold a watch back, not its neighbours.
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

    /// When a request that begins now must be over.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Sends a request and waits for the answer.
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
        // One member alone gets a second chance too: a connection that died a moment ago fails the
        // request that finds out.
        let attempts = count.max(2);
        let first = *self.preferred.borrow();
        let mut tried = 0;
        loop {
            let index = (first + tried) % count;
            let until = match repeat {
                // A member that hangs must leave time for the others.
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
            // A second chance is for what fails at once: where no process answers a dial, no process answers the next one.
            let is_timed_out = count == 1 && began.elapsed() >= self.dial_timeout;
            if !again || is_timed_out || tried == attempts || Instant::now() >= deadline {
                return Err(failure);
            }
        }
    }

    /// Opens a watch at some member.
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

    /// Asks another member first from now on, after this one failed.
    pub(super) fn leave(&self, origin: &WatchOrigin) {
        self.avoid(origin.member);
    }

    /// Returns when requests have left the member that serves a watch, because it failed. A frozen
    /// member shows that by not answering requests; of its watches only the pings report, and late.
    pub(super) async fn left(&self, origin: &WatchOrigin) {
        let mut preferred = self.preferred.subscribe();
        // The sender lives as long as this connection.
        let _ = preferred.wait_for(|preferred| *preferred != origin.member).await;
    }

    /// Logs in again before the next request, after a token was refused.
    pub(super) async fn discard(&self, origin: &WatchOrigin) {
        if let Some(credentials) = &self.credentials {
            credentials.discard(origin.token.as_ref()).await;
        }
    }

    fn avoid(&self, index: usize) {
        let next = (index + 1) % self.members.len();
        self.preferred.send_if_modified(|preferred| {
            // Another process else may have found out already.
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
        // etcd ends a watch when its sender does.
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

    /// Asks one member, and logs in when it wants that.
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
        // Whatever became of the log-in, the request itself was not sent.
        match timeout_at(until, credentials.token(authenticate)).await {
            Ok(Err(EtcdFailure::Unknown(status))) => Err(EtcdFailure::Unsent(status)),
            Ok(answer) => answer,
            Err(_) => Err(EtcdFailure::Unsent(Status::deadline_exceeded(
                "no log-in in time",
            ))),
        }
    }
}

/// The end of the first of `parts` equal parts of the time left.
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

/// Adds what each request carries.
fn dress<T>(message: T, token: Option<Token>) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    // A member cut off from its leader is to say so at once, rather than to let requests wait and
    // watches fall silent.
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        metadata.insert("token", token);
    }
    request
}

fn path<T: std::str::FromStr<Err: std::fmt::Debug>>(method: &'static str) -> T {
    method.parse().expect("the methods are well-formed paths")
}
