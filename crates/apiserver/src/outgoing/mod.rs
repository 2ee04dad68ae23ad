//! Outgoing calls of the server: admission and conversion webhooks, kubelets, and proxied requests.
//!
//! ```text
//! destination           the destination of a webhook call: a URL or a service, and its CA bundle
//! service               resolves a service to an endpoint
//! certificate_verifier  verification of server certificates
//! trust                 trusted certificates
//! address               which addresses may be dialled
//! interfaces            addresses of this machine
//! dialer                connections to addresses that objects name
//! connection            one connection, and idle ones kept for reuse
//! nodes                 addresses of kubelets, and the client certificate for them
//! proxy                 proxied requests and upgraded streams
//! error                 error texts of upstream
//! ```
//!
//! Promises: a call ends within its timeout. A connection is reused when the server keeps it open, and a call is sent twice only
//! when the first attempt certainly was not sent. Nothing here outlives its [`WebhookClientManager`].

mod address;
mod certificate_verifier;
mod connection;
mod destination;
mod dialer;
mod error;
mod interfaces;
mod nodes;
mod proxy;
mod service;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod trust;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;

pub use self::certificate_verifier::{CertificateVerifier, TlsVerifier};
use self::connection::WebhookEndpoint;
pub(crate) use self::{
    address::{AddressError, DialRule},
    destination::Destination,
    dialer::{DialError, Dialer},
    error::CallError,
    nodes::{
        NodeCertificateCheck, NodeConnectionInfo, NodeConnectionInfoGetter, simulated_node, unreachable_node,
    },
    proxy::{ByteStream, ProxyError, ProxyLocation, ProxyRequest, UpgradeTunnel},
    service::endpoints,
};
use crate::cache::WatchCaches;

/// So many destinations have connections of their own at the same time.
const MAX_ENDPOINTS: usize = 200;

/// The clients of all destinations.
pub(crate) struct WebhookClientManager {
    caches: Arc<WatchCaches>,
    dialer: Arc<Dialer>,
    /// An endpoint that cannot be made is not in it.
    endpoints: Mutex<HashMap<Destination, Arc<WebhookEndpoint>>>,
}

// --- WebhookClientManager ---

impl WebhookClientManager {
    /// Clients that find services in these caches.
    pub(crate) fn new(caches: Arc<WatchCaches>, dialer: Arc<Dialer>) -> Self {
        WebhookClientManager {
            caches,
            dialer,
            endpoints: Mutex::default(),
        }
    }

    /// Posts JSON and returns the body of a successful response. The timeout is also sent to the server.
    pub(crate) async fn post(
        &self,
        to: &Destination,
        body: Bytes,
        timeout: Option<Duration>,
    ) -> Result<Bytes, CallError> {
        let endpoint = self.endpoint(to)?;
        let url = to.url(timeout);
        let call = endpoint.post(&url, body, &self.caches);
        match timeout {
            Some(timeout) => tokio::time::timeout(timeout, call)
                .await
                .unwrap_or_else(|_| Err(CallError::post(&url, "context deadline exceeded"))),
            None => call.await,
        }
    }

    fn endpoint(&self, to: &Destination) -> Result<Arc<WebhookEndpoint>, CallError> {
        let mut endpoints = self.endpoints.lock();
        if let Some(endpoint) = endpoints.get(to) {
            return Ok(Arc::clone(endpoint));
        }
        let endpoint = Arc::new(WebhookEndpoint::new(to.clone(), Arc::clone(&self.dialer))?);
        if endpoints.len() >= MAX_ENDPOINTS {
            // Configurations come and go; who is still called is back with the next call.
            endpoints.clear();
        }
        endpoints.insert(to.clone(), Arc::clone(&endpoint));
        Ok(endpoint)
    }
}
