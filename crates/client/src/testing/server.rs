//! A server of canned bytes on a loopback port. It ends with the test.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// How long a connection may take to send its request.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Answers to requests, and the requests so far.
pub(crate) struct CannedServer {
    address: SocketAddr,
    state: Arc<Mutex<ServerState>>,
}

#[derive(Default)]
struct ServerState {
    routes: Vec<Route>,
    requests: Vec<CannedRequest>,
}

/// The answers to one request, in order; the last one is repeated.
struct Route {
    request: String,
    answers: Vec<Vec<u8>>,
}

/// A request that was received.
#[derive(Clone, Debug)]
pub(crate) struct CannedRequest {
    /// Such as `GET /api/v1/pods?limit=1`.
    pub(crate) line: String,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

// --- CannedServer ---

impl CannedServer {
    /// A server that knows pods, events and the workloads of `apps/v1`.
    pub(crate) fn start() -> Self {
        let server = Self::without_discovery();
        let core = [("pods", "Pod"), ("events", "Event"), ("configmaps", "ConfigMap")];
        let apps = [
            ("deployments", "Deployment"),
            ("replicasets", "ReplicaSet"),
            ("statefulsets", "StatefulSet"),
            ("daemonsets", "DaemonSet"),
            ("controllerrevisions", "ControllerRevision"),
        ];
        server
            .on("GET /api", &[json_answer(200, &discovery("", &core))])
            .on("GET /apis", &[json_answer(200, &discovery("apps", &apps))])
    }

    /// A server without any answer.
    pub(crate) fn without_discovery() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(Mutex::new(ServerState::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(connection, &shared));
            }
        });
        Self { address, state }
    }

    /// Adds the answers to a request such as `GET /api/v1/pods`.
    pub(crate) fn on(self, request: &str, answers: &[Vec<u8>]) -> Self {
        self.lock(|state| {
            state.routes.push(Route {
                request: request.to_owned(),
                answers: answers.to_vec(),
            });
        });
        self
    }

    /// The requests so far without those of discovery.
    pub(crate) fn requests(&self) -> Vec<CannedRequest> {
        self.lock(|state| {
            let mut requests = state.requests.clone();
            requests.retain(|request| !matches!(request.line.as_str(), "GET /api" | "GET /apis"));
            requests
        })
    }

    /// The first lines of the requests so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.line).collect()
    }

    /// A kubeconfig for this server.
    pub(crate) fn kubeconfig(&self) -> NamedTempFile {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": "default"}}],
        });
        let mut file = NamedTempFile::new().expect("the temporary directory is writable");
        file.write_all(config.to_string().as_bytes())
            .expect("the file is writable");
        file
    }

    fn lock<T>(&self, read: impl FnOnce(&mut ServerState) -> T) -> T {
        read(&mut self.state.lock())
    }
}

fn discovery(group: &str, resources: &[(&str, &str)]) -> Value {
    let resources: Vec<Value> = resources
        .iter()
        .map(|(plural, kind)| {
            json!({"resource": plural, "singularResource": kind.to_lowercase(), "scope": "Namespaced",
                "responseKind": {"kind": kind}, "verbs": ["get", "list", "watch"], "shortNames": []})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [
        {"metadata": {"name": group}, "versions": [{"version": "v1", "resources": resources}]}]})
}

/// Answers the one request of a connection, and closes it.
fn serve(connection: TcpStream, state: &Mutex<ServerState>) {
    let Some((request, mut connection)) = read_request(connection) else {
        return;
    };
    let answer = {
        let mut state = state.lock();
        let route = state
            .routes
            .iter_mut()
            .find(|route| route.request == request.line);
        let answer = match route {
            Some(route) if route.answers.len() > 1 => route.answers.remove(0),
            Some(route) => route.answers[0].clone(),
            None => raw(404, &format!("no answer to {}", request.line)),
        };
        state.requests.push(request);
        answer
    };
    // A client may have closed the connection: then it is the test that fails.
    let _ = connection.write_all(&answer);
}

fn read_request(connection: TcpStream) -> Option<(CannedRequest, TcpStream)> {
    connection.set_read_timeout(Some(READ_TIMEOUT)).ok()?;
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let line = line.trim_end().strip_suffix(" HTTP/1.1")?.to_owned();
    let mut length = 0;
    let mut content_type = String::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "content-type" => value.clone_into(&mut content_type),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request = CannedRequest {
        line,
        content_type,
        body: String::from_utf8(body).ok()?,
    };
    Some((request, reader.into_inner()))
}

/// An answer with a text.
pub(crate) fn raw(code: u16, text: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {code} Canned\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        text.len()
    );
    (head + text).into_bytes()
}

/// An answer with an object.
pub(crate) fn json_answer(code: u16, object: &Value) -> Vec<u8> {
    raw(code, &object.to_string())
}

/// An answer that ends with the connection: events of a watch, or a log.
pub(crate) fn stream(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{text}").into_bytes()
}

/// An answer whose connection ends before as many bytes were sent as it has.
pub(crate) fn cut_off(text: &str) -> Vec<u8> {
    let length = text.len() + 100;
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}").into_bytes()
}
