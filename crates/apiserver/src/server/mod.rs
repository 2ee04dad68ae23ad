//! The server: connections, and what each request goes through.
//!
//! ```text
//! connection   TLS, HTTP/1.1 or HTTP/2, and an orderly end
//! handler      authentication, authorization, routing; nothing a request does ends the server
//! verb         which verb of the registry a method and a path mean
//! health       whether the server is alive and ready
//! metrics      figures for those who watch over it
//! deprecation  what users of old kinds are told
//! ```

mod connection;
mod deprecation;
mod handler;
mod health;
mod metrics;
mod verb;

use std::{future::Future, sync::Arc};

use k3_storage::{Clock, ReadError, Store, SystemClock};
use tokio::net::TcpListener;

use self::handler::Handler;
pub(crate) use self::verb::Verb;
use crate::{
    Config,
    admission::Admission,
    allocation::{Allocation, Keeper},
    authz::Authorizer,
    cache::{Caches, Feed},
    custom::{self, Converter},
    outgoing::Outgoing,
    registry::{self, BadSigningKey, Registry, Signer},
};

/// A server that is ready to take requests.
pub struct Server {
    handler: Arc<Handler>,
    /// Ends with the server.
    _feed: Feed,
    _keeper: Keeper,
    _definitions: custom::Keeper,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// What is stored cannot be read.
    #[error("cannot read what is stored: {0}")]
    Read(#[from] ReadError),
    /// The key that tokens are to be signed with cannot be used.
    #[error(transparent)]
    SigningKey(#[from] BadSigningKey),
    /// The objects a cluster is born with cannot be made.
    #[error("cannot make {what}: {why}")]
    Bootstrap {
        /// Which object.
        what: String,
        /// What went wrong.
        why: String,
    },
}

// --- Server ---

impl Server {
    /// Reads what is stored, and makes what every cluster has.
    pub async fn start(config: Config, store: Arc<dyn Store>) -> Result<Self, StartError> {
        let (caches, feed) = Caches::fill(store, registry::selectable).await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let allocation = Allocation::new(Arc::clone(&caches), Arc::clone(&clock), &config.service_range);
        let keeper = allocation.keep_true().await.map_err(ReadError::from)?;
        let authorizer = Arc::new(Authorizer::new(Arc::clone(&caches)));
        let outgoing = Arc::new(Outgoing::new(Arc::clone(&caches)));
        let mut admission = Admission::new(&authorizer, &outgoing);
        if config.guard_owners {
            admission.guard_owners(&authorizer);
        }
        let converter = Arc::new(Converter::new(outgoing));
        let registry = Registry {
            caches,
            admission,
            authorizer,
            allocation,
            clock,
            signer: Signer::new(config.issuer.clone(), &config.signing_key)?,
            converter,
        };
        let registry = Arc::new(registry);
        crate::bootstrap::run(&registry, &config).await?;
        Ok(Server {
            _definitions: custom::Keeper::start(Arc::clone(&registry)),
            handler: Arc::new(Handler::new(config, registry)),
            _feed: feed,
            _keeper: keeper,
        })
    }

    /// Takes connections until `stop` is ready, then ends them in an orderly way: watches end, requests are answered, and
    /// what is not done after some seconds is cut off.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Arc<rustls::ServerConfig>,
        stop: impl Future<Output = ()> + Send,
    ) {
        connection::serve(&self.handler, listener, tls, stop).await;
    }
}
