//! Failover between the API servers of a cluster.
//!
//! A request is sent to one server, and fails if that server does not respond; the retry is sent to the next one. Requests use
//! the certificate and the authorities at the time of the request.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use http::{Request, Response, Uri};
use kube::{Client, client::Body};
use parking_lot::RwLock;
use tokio::time::Instant;

/// A request that is dropped after this time counts as unanswered.
const PATIENCE: Duration = Duration::from_secs(5);

/// The servers of a cluster, the preferred one first; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerList(Vec<Uri>);

/// An invalid list of servers.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("not a URL such as https://10.0.0.1:6443, or several with commas")]
pub(crate) struct InvalidServers;

/// The client of the server in use. Clones share it.
#[derive(Clone)]
pub(super) struct CurrentServer(Arc<RwLock<ServerClients>>);

struct ServerClients {
    /// One client per server.
    clients: Vec<Client>,
    /// Count of failovers; modulo the number of clients it is the index of the server in use.
    failovers: usize,
}

/// A request without a response.
struct PendingRequest<'a> {
    current: &'a CurrentServer,
    failovers: usize,
    /// `None` after the response.
    since: Option<Instant>,
}

// --- ServerList ---

impl ServerList {
    /// The preferred server.
    pub(crate) fn first(&self) -> &Uri {
        &self.0[0]
    }

    pub(crate) fn all(&self) -> &[Uri] {
        &self.0
    }
}

impl FromStr for ServerList {
    type Err = InvalidServers;

    fn from_str(text: &str) -> Result<Self, InvalidServers> {
        let server = |text: &str| {
            let url: Uri = text.trim().parse().ok()?;
            let is_one = url.scheme_str() == Some("https") && url.host().is_some_and(|host| !host.is_empty());
            is_one.then_some(url)
        };
        let servers: Option<Vec<Uri>> = text.split(',').map(server).collect();
        servers.map(ServerList).ok_or(InvalidServers)
    }
}

impl fmt::Display for ServerList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, server) in self.0.iter().enumerate() {
            write!(f, "{}{server}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

// --- CurrentServer ---

impl CurrentServer {
    pub(super) fn new(clients: Vec<Client>) -> Self {
        CurrentServer(Arc::new(RwLock::new(ServerClients {
            clients,
            failovers: 0,
        })))
    }

    /// Replaces the clients; the order of the servers must be the same.
    pub(super) fn set(&self, clients: Vec<Client>) {
        self.0.write().clients = clients;
    }

    /// The index of the server in use.
    pub(super) fn index(&self) -> usize {
        let state = self.0.read();
        state.failovers % state.clients.len().max(1)
    }

    /// A client that sends each request to the server in use.
    pub(super) fn client(&self) -> Client {
        let current = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let current = current.clone();
            async move { current.send(request).await }
        });
        Client::new(service, "default")
    }

    async fn send(&self, request: Request<Body>) -> kube::Result<Response<Body>> {
        let (client, failovers) = {
            let state = self.0.read();
            let index = state.failovers % state.clients.len().max(1);
            (state.clients[index].clone(), state.failovers)
        };
        let pending = PendingRequest {
            current: self,
            failovers,
            since: Some(Instant::now()),
        };
        let answer = client.send(request).await;
        pending.answered();
        if answer.is_err() {
            self.fail_over(failovers);
        }
        answer
    }

    /// Fails over to the next server, unless a concurrent request has done so.
    fn fail_over(&self, failovers: usize) {
        let mut state = self.0.write();
        if state.failovers == failovers && state.clients.len() > 1 {
            state.failovers += 1;
            tracing::warn!("API server does not answer: failing over to another one");
        }
    }
}

// --- PendingRequest ---

impl PendingRequest<'_> {
    fn answered(mut self) {
        self.since = None;
    }
}

impl Drop for PendingRequest<'_> {
    /// The caller dropped the request.
    fn drop(&mut self) {
        if self.since.is_some_and(|since| since.elapsed() >= PATIENCE) {
            self.current.fail_over(self.failovers);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    fn client(answer: impl Fn() -> Option<u16> + Clone + Send + Sync + 'static) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| {
            let code = answer();
            async move {
                let Some(code) = code else {
                    std::future::pending::<()>().await;
                    unreachable!("the future never completes");
                };
                if code == 0 {
                    return Err("connection refused".into());
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
                    Response::builder().status(code).body(Body::empty()).unwrap(),
                )
            }
        });
        Client::new(service, "default")
    }

    fn request() -> Request<Body> {
        Request::get("/").body(Body::empty()).unwrap()
    }

    #[tokio::test]
    async fn fails_over_on_connection_errors_but_not_on_rejections() {
        let current = CurrentServer::new(vec![
            client(|| Some(503)),
            client(|| Some(0)),
            client(|| Some(200)),
        ]);
        let used = current.client();
        assert_eq!(used.send(request()).await.unwrap().status(), 503);
        assert_eq!(current.index(), 0);
        current.fail_over(0);
        assert!(used.send(request()).await.is_err());
        assert_eq!(used.send(request()).await.unwrap().status(), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn fails_over_after_a_request_times_out() {
        let current = CurrentServer::new(vec![client(|| None), client(|| Some(200))]);
        let used = current.client();
        assert!(timeout(PATIENCE / 2, used.send(request())).await.is_err());
        assert_eq!(current.index(), 0);
        assert!(timeout(PATIENCE * 2, used.send(request())).await.is_err());
        assert_eq!(current.index(), 1);
    }

    #[test]
    fn parses_comma_separated_urls() {
        let servers: ServerList = "https://10.0.0.1:6443, https://b:1".parse().unwrap();
        assert_eq!(servers.to_string(), "https://10.0.0.1:6443/, https://b:1/");
        for bad in ["", "http://a", "https://a,", "a"] {
            assert!(bad.parse::<ServerList>().is_err(), "{bad}");
        }
    }
}
