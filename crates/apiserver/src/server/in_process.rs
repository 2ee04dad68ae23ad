//! The in-process transport: other parts of the process use the server without a socket.
//!
//! Promise: who asks from inside is authorized, limited, counted and written down like everybody else. Only who they are
//! need not be proven.

use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use k3_api::strategy::User;
use serde_json::Value;
use tokio::sync::Notify;

use super::Server;
use crate::{
    authn::ConnectionPeer,
    http::{BodyError, RequestBody, ResponseBody, sent},
    pipeline::HandlerChain,
};

/// In-process access to the server for one user. Clones are the same user.
#[derive(Clone)]
pub struct InProcessTransport {
    handler: Arc<HandlerChain>,
    peer: Arc<ConnectionPeer>,
}

/// A response body. Its frames are the stored bytes, not copies.
pub struct InProcessBody(ResponseBody);

// --- InProcessTransport ---

impl InProcessTransport {
    /// Sends a request.
    pub fn ask<B>(&self, request: Request<B>) -> BoxFuture<'_, Response<InProcessBody>>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.answer(request.map(sent))
    }

    /// Boxed here, and not in `ctx`: so it is compiled with this crate, not with each that asks.
    #[inline(never)]
    fn answer(&self, request: Request<RequestBody>) -> BoxFuture<'_, Response<InProcessBody>> {
        Box::pin(async move {
            // There is no connection that could be ended.
            let end = Notify::new();
            let answer = self.handler.handle(request, &self.peer, &end).await;
            answer.map(InProcessBody)
        })
    }
}

impl Server {
    /// In-process access for a user, such as a controller with its service account.
    pub fn in_process(&self, user: User) -> InProcessTransport {
        InProcessTransport {
            handler: Arc::clone(&self.handler),
            peer: Arc::new(ConnectionPeer {
                in_process: Some(user),
                ..ConnectionPeer::default()
            }),
        }
    }

    /// Signs the claims of tokens with the key of service accounts, for who keeps such tokens in secrets.
    pub fn token_signer(&self) -> impl Fn(&Value) -> String + Send + Sync + use<> {
        let authenticator = Arc::clone(&self.authenticator);
        move |claims| authenticator.signer().sign(claims)
    }

    /// Ends all watches, also those from inside, which no listener knows of.
    pub fn end_watches(&self) {
        self.handler.end_watches();
    }
}

// --- InProcessBody ---

impl http_body::Body for InProcessBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
