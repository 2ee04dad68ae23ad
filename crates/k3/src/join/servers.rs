//! The servers of a cluster, of which a node asks one, and another when that one does not answer.
//!
//! Promises: a request is sent to one server, and fails if that does not answer; the retry goes to the
//! next one. What a request shows is the certificate of the moment, and whom it trusts the authorities of the moment.

use std::{
    fmt,
    str::FromStr,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use http::{Request, Response, Uri};
use kube::{Client, client::Body};
use tokio::time::Instant;

/// A request that is dropped after this time counts as unanswered.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the servers of a cluster are, the preferred one first. There is one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Servers(Vec<Uri>);

/// A text that does not say where servers are.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("not a URL such as https://10.0.0.1:6443, or several with commas")]
pub(crate) struct InvalidServers;

/// The client that a node uses now. Clones are the same.
#[derive(Clone)]
pub(super) struct CurrentServer(Arc<RwLock<ServerClients>>);

struct ServerClients {
    /// One for each server.
    clients: Vec<Client>,
    /// Grows with each server that did not answer; the one in use is at its rest by the number of clients.
    failovers: usize,
}

/// A question that has no answer yet.
struct PendingRequest<'a> {
    current: &'a CurrentServer,
    failovers: usize,
    /// `None` once it is answered.
    since: Option<Instant>,
}

// --- Servers ---

impl Servers {
    /// The preferred one.
    pub(crate) fn first(&self) -> &Uri {
        &self.0[0]
    }

    pub(crate) fn all(&self) -> &[Uri] {
        &self.0
    }
}

impl FromStr for Servers {
    type Err = InvalidServers;

    fn from_str(text: &str) -> Result<Self, InvalidServers> {
        let server = |text: &str| {
            let url: Uri = text.trim().parse().ok()?;
            let is_one = url.scheme_str() == Some("https") && url.host().is_some_and(|host| !host.is_empty());
            is_one.then_some(url)
        };
        let servers: Option<Vec<Uri>> = text.split(',').map(server).collect();
        servers.map(Servers).ok_or(InvalidServers)
    }
}

impl fmt::Display for Servers {
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

    /// Others from now on, the server in use first: they are in the same order.
    pub(super) fn set(&self, clients: Vec<Client>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clients = clients;
    }

    /// Which of the servers is asked now.
    pub(super) fn index(&self) -> usize {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.failovers % state.clients.len().max(1)
    }

    /// A client that sends each request to the server of the moment.
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
            let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
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

    /// Fails over to the next server, unless another request has done so.
    fn fail_over(&self, failovers: usize) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
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
    /// The question was given up.
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
                    unreachable!("it waits for ever");
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
    fn servers_are_urls_with_commas() {
        let servers: Servers = "https://10.0.0.1:6443, https://b:1".parse().unwrap();
        assert_eq!(servers.to_string(), "https://10.0.0.1:6443/, https://b:1/");
        for bad in ["", "http://a", "https://a,", "a"] {
            assert!(bad.parse::<Servers>().is_err(), "{bad}");
        }
    }
}
