//! The kubelet API: container logs, exec, attach, port-forward, stats, metrics.
//!
//! ```text
//! connection          TLS, HTTP/1.1, graceful shutdown
//! handler             authenticates and authorizes requests, and dispatches them
//! auth                TokenReview and SubjectAccessReview
//! request_attributes  verb and node subresource of a request
//! route               URL paths
//! host                HostInterface: what the server needs from the agent
//! container_logs      options and output of containerLogs
//! container_lookup    finds containers in a Pod object
//! stats/              /stats/summary and /metrics
//! streams/            exec, attach and port-forward over SPDY and WebSocket
//! ```
//!
//! Promises:
//! - Only requests that the API server authenticates and authorizes are served.
//! - A streaming session ends with its client or with the server. Its process keeps running.
//! - A client cannot make the server buffer more than a few megabytes.
// upstream: pkg/kubelet/server/server.go NewServer, InstallAuthRequiredHandlers

mod auth;
mod connection;
mod container_logs;
mod container_lookup;
mod handler;
mod host;
mod request_attributes;
mod route;
mod stats;
mod streams;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc};

use kube::Client;
use kubecontroller::{Clock, manager::Stop};
use tokio::net::TcpListener;

pub use self::host::HostInterface;
use self::{auth::KubeletAuth, handler::Handler, stats::StatsProvider};

/// The server of the kubelet API.
// upstream: pkg/kubelet/server/server.go Server
pub struct KubeletServer {
    handler: Arc<Handler>,
}

/// Configuration of [`KubeletServer`].
pub struct KubeletServerConfig {
    /// Name of the node.
    pub node: String,
    /// Client of the API server, which authenticates and authorizes requests.
    pub client: Client,
    /// Clock.
    pub clock: Clock,
    /// Data directory of the agent. The stats of its file system are those of the node.
    pub data_dir: PathBuf,
}

// --- KubeletServer ---

impl KubeletServer {
    /// A server for the pods of `host`.
    pub fn new(config: KubeletServerConfig, host: Arc<dyn HostInterface>) -> Self {
        KubeletServer {
            handler: Arc::new(Handler {
                auth: KubeletAuth::new(config.client, config.node.clone()),
                stats: StatsProvider::new(config.node, config.data_dir, config.clock.clone()),
                clock: config.clock,
                host,
            }),
        }
    }

    /// Accepts connections until `stop` is stopped. `tls` must request client certificates and verify them against the CA of the
    /// cluster, but accept clients without one.
    pub async fn serve(&self, listener: TcpListener, tls: Arc<rustls::ServerConfig>, stop: Stop) {
        connection::serve(&self.handler, listener, tls, stop).await;
    }
}
