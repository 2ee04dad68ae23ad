//! The node's own API: logs, exec, attach, port-forward, figures.
//!
//! ```text
//! connection   TLS, HTTP/1.1, and an orderly end
//! handler      who asks, whether they may, and what answers
//! access       who a client is, and what it may do, as the API server says
//! attributes   what a request is, as authorization sees it
//! route        what a path leads to
//! lookup       what the server asks the rest of the agent
//! logs         what containers wrote
//! subject      which container is meant, in the words of upstream
//! figures      what pods and the machine use
//! streams      conversations with processes and ports
//! ```
//!
//! Promises:
//! - Nobody is answered who is not known, and allowed by the API server.
//! - A conversation ends with its client, and with the server; the process it was about is left alone.
//! - Nothing a client sends makes the server hold more than a few megabytes for it.

mod access;
mod attributes;
mod connection;
mod figures;
mod handler;
mod logs;
mod lookup;
mod route;
mod streams;
mod subject;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc};

use kube::Client;
use kubecontroller::{Clock, manager::Stop};
use tokio::net::TcpListener;

pub use self::lookup::Lookup;
use self::{access::Access, figures::Sampler, handler::Handler};

/// The node's own API.
pub struct NodeServer {
    handler: Arc<Handler>,
}

/// What a server is told when it starts.
pub struct ServerConfig {
    /// The name of the node.
    pub node: String,
    /// Whom it asks who clients are, and what they may do.
    pub client: Client,
    /// The time of day.
    pub clock: Clock,
    /// A folder on the file system that pods are kept on: its figures are those of the node.
    pub folder: PathBuf,
}

// --- NodeServer ---

impl NodeServer {
    /// A server that finds pods with `lookup`.
    pub fn new(config: ServerConfig, lookup: Arc<dyn Lookup>) -> Self {
        NodeServer {
            handler: Arc::new(Handler {
                access: Access::new(config.client, config.node.clone()),
                sampler: Sampler::new(config.node, config.folder, config.clock.clone()),
                clock: config.clock,
                lookup,
            }),
        }
    }

    /// Takes connections until it is stopped. Clients are known by certificates only if `tls` asks for them, and verifies them
    /// against the authority of the cluster; who shows none must be let through.
    pub async fn serve(&self, listener: TcpListener, tls: Arc<rustls::ServerConfig>, stop: Stop) {
        connection::serve(&self.handler, listener, tls, stop).await;
    }
}
