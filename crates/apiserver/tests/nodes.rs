//! The server between a client and a node: logs, upgraded streams, proxied requests, and metrics.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::Frame, body::Incoming, client::conn::http1 as client, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use k3_apiserver::{
    Authentication, Config, EndpointReconcilerType, Limits, NodeClient, PodAccounts, Server, service_range,
};
use k3_storage::memory::MemoryStore;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use rustls::{
    RootCertStore,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    task::JoinSet,
    time,
};
use tokio_rustls::TlsAcceptor;

const PATIENCE: Duration = Duration::from_mins(1);

type NodeResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// An authority, and what it signs.
struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: rustls::pki_types::CertificateDer<'static>,
}

impl TestAuthority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        TestAuthority {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

/// What a stand-in for a node has seen.
#[derive(Default)]
struct NodeRequests {
    asked: parking_lot::Mutex<Vec<(String, HeaderMap)>>,
    /// How many logs are being followed.
    following: AtomicUsize,
    ended: Notify,
    summaries: AtomicUsize,
}

/// Counts down when a client that follows a log disconnects.
struct LogFollower(Arc<NodeRequests>);

impl Drop for LogFollower {
    fn drop(&mut self) {
        self.0.following.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify_waiters();
        self.0.ended.notify_one();
    }
}

fn whole(code: u16, text: impl Into<Bytes>) -> NodeResponse {
    let mut reply = Response::new(Full::new(text.into()).boxed_unsync());
    *reply.status_mut() = StatusCode::from_u16(code).unwrap();
    reply
}

fn node_reply(
    mut request: Request<Incoming>,
    seen: Arc<NodeRequests>,
    tasks: &parking_lot::Mutex<JoinSet<()>>,
) -> NodeResponse {
    let uri = request.uri().to_string();
    seen.asked.lock().push((uri.clone(), request.headers().clone()));
    if uri.contains("container%20") || uri.starts_with("/containerLogs/default/p/waiting") {
        return whole(
            400,
            "container \"waiting\" in pod \"p\" is waiting to start: ContainerCreating",
        );
    }
    if uri.starts_with("/containerLogs/") && uri.contains("follow=true") {
        seen.following.fetch_add(1, Ordering::SeqCst);
        let following = LogFollower(seen);
        let first = Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"line\n")));
        let lines = futures_util::stream::unfold((Some(first), following), |(first, following)| async move {
            match first {
                Some(first) => Some((first, (None, following))),
                None => std::future::pending().await,
            }
        });
        return Response::new(StreamBody::new(lines).boxed_unsync());
    }
    if uri.starts_with("/containerLogs/") {
        return whole(200, "all\n");
    }
    if uri.starts_with("/stats/summary") {
        seen.summaries.fetch_add(1, Ordering::SeqCst);
        let summary = json!({
            "node": {"cpu": {"usageNanoCores": 7}, "memory": {"workingSetBytes": 1024}},
            "pods": [{"podRef": {"name": "p", "namespace": "default", "uid": ""}, "containers": [
                {"name": "a", "cpu": {"usageNanoCores": 3}, "memory": {"workingSetBytes": 2048}},
            ]}],
        });
        return whole(200, summary.to_string());
    }
    if uri.starts_with("/exec/") {
        let upgrade = hyper::upgrade::on(&mut request);
        // What is said is repeated in capitals; the end of it is answered, too.
        tasks.lock().spawn(async move {
            let mut io = TokioIo::new(upgrade.await.unwrap());
            let mut buffer = BytesMut::new();
            while io.read_buf(&mut buffer).await.unwrap() > 0 {
                let mut said = buffer.split().to_vec();
                said.make_ascii_uppercase();
                io.write_all(&said).await.unwrap();
                io.flush().await.unwrap();
            }
            io.write_all(b"bye").await.unwrap();
            io.shutdown().await.unwrap();
        });
        let mut reply = whole(101, "");
        for (name, value) in [
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-own", "kept"),
        ] {
            reply.headers_mut().insert(name, value.parse().unwrap());
        }
        return reply;
    }
    whole(404, "nothing here")
}

/// A server, a node, and what lies between them.
struct Cluster {
    api: SocketAddr,
    node: SocketAddr,
    seen: Arc<NodeRequests>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Cluster {
    async fn start() -> Self {
        let authority = TestAuthority::new();
        let mut tasks = JoinSet::new();
        let seen = Arc::new(NodeRequests::default());
        let node = start_node(&authority, &seen, &mut tasks).await;
        let (certificate, key) = authority.sign(
            "kube-apiserver-kubelet-client",
            ExtendedKeyUsagePurpose::ClientAuth,
        );
        let signing = ring::signature::EcdsaKeyPair::generate_pkcs8(
            &ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            &ring::rand::SystemRandom::new(),
        )
        .unwrap();
        let config = Config {
            authentication: Authentication {
                localhost: true,
                ..Authentication::default()
            },
            service_range: service_range("10.0.0.0/24").unwrap(),
            issuer: "https://issuer".to_owned(),
            signing_key: signing.as_ref().to_vec(),
            unrestricted_update: false,
            advertise: (Ipv4Addr::new(192, 0, 2, 1).into(), 6443),
            endpoint_reconciler: EndpointReconcilerType::default(),
            guard_owners: false,
            pod_accounts: PodAccounts::default(),
            limits: Limits::default(),
            audit: None,
            nodes: Some(NodeClient {
                certificate: certificate.pem().into_bytes(),
                key: key.serialize_pem().into_bytes(),
                authorities: authority.pem.clone().into_bytes(),
            }),
            usage: true,
        };
        let store = MemoryStore::new();
        let server = Server::start(config, store).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = listener.local_addr().unwrap();
        let (stop, mut stopped) = watch::channel(false);
        tasks.spawn(async move {
            server
                .serve_plain(listener, async move {
                    let _ = stopped.wait_for(|stop| *stop).await;
                })
                .await;
        });
        let cluster = Cluster {
            api,
            node,
            seen,
            stop,
            tasks,
        };
        cluster.fill(node).await;
        cluster
    }

    /// Makes a node, or has it say something else of itself.
    async fn put_node(&self, name: &str, address: &str, port: u16, more: &Value) {
        let mut object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        if self.get(&format!("/api/v1/nodes/{name}")).await.0 == 404 {
            self.write(Method::POST, "/api/v1/nodes", &object).await;
        }
        object["status"] = more.clone();
        object["status"]["addresses"] = json!([{"type": "InternalIP", "address": address}]);
        object["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": port}});
        let path = format!("/api/v1/nodes/{name}/status");
        self.write(Method::PUT, &path, &object).await;
    }

    /// A node, a pod on it, and one that is on none.
    async fn fill(&self, node: SocketAddr) {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        self.write(
            Method::POST,
            "/api/v1/namespaces/default/serviceaccounts",
            &account,
        )
        .await;
        self.put_node("n", &node.ip().to_string(), node.port(), &json!({}))
            .await;
        for (name, node) in [("p", "n"), ("lonely", "missing")] {
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {
                    "nodeName": node,
                    "automountServiceAccountToken": false,
                    "containers": [{"name": "a", "image": "x"}, {"name": "waiting", "image": "x"}],
                },
            });
            self.write(Method::POST, "/api/v1/namespaces/default/pods", &pod)
                .await;
            pod["status"] = json!({"phase": "Running"});
            let path = format!("/api/v1/namespaces/default/pods/{name}/status");
            self.write(Method::PUT, &path, &pod).await;
        }
    }

    async fn write(&self, method: Method, path: &str, body: &Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let (response, _task) = self.send(request).await;
        let code = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(code.is_success(), "{path}: {}", String::from_utf8_lossy(&body));
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> (Response<Incoming>, JoinSet<()>) {
        let stream = TcpStream::connect(self.api).await.unwrap();
        let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let _ = connection.with_upgrades().await;
        });
        (sender.send_request(request).await.unwrap(), task)
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let request = Request::get(path)
            .header(header::HOST, "localhost")
            .body(Full::default())
            .unwrap();
        let (response, _task) = self.send(request).await;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn message(&self, path: &str) -> (u16, String) {
        let (code, body) = self.get(path).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        (code, body["message"].as_str().unwrap_or_default().to_owned())
    }

    fn asked(&self) -> (String, HeaderMap) {
        self.seen.asked.lock().last().cloned().unwrap()
    }

    /// Begins a conversation.
    async fn exec(&self) -> (Response<Incoming>, JoinSet<()>) {
        let request = Request::post("/api/v1/namespaces/default/pods/p/exec?container=a&command=echo&command=a+b&stdout=true&stdin=true")
            .header(header::HOST, "localhost")
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "SPDY/3.1")
            .header("x-stream-protocol-version", "v4.channel.k8s.io")
            .header(header::COOKIE, "session=x")
            .body(Full::default())
            .unwrap();
        self.send(request).await
    }
}

async fn start_node(
    authority: &TestAuthority,
    seen: &Arc<NodeRequests>,
    tasks: &mut JoinSet<()>,
) -> SocketAddr {
    let (certificate, key) = authority.sign("system:node:n", ExtendedKeyUsagePurpose::ServerAuth);
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::clone(seen);
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        let talks = Arc::new(parking_lot::Mutex::new(JoinSet::new()));
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            let seen = Arc::clone(&seen);
            let talks = Arc::clone(&talks);
            connections.spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let service = service_fn(move |request| {
                    let reply = std::future::ready(node_reply(request, Arc::clone(&seen), &talks));
                    async move { Ok::<_, Infallible>(reply.await) }
                });
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades()
                    .await;
            });
        }
    });
    address
}

#[tokio::test]
async fn proxies_logs_from_node() {
    let cluster = Cluster::start().await;
    let path = "/api/v1/namespaces/default/pods/p/log";
    let (code, body) = cluster
        .get(&format!("{path}?container=a&tailLines=3&timestamps=true"))
        .await;
    assert_eq!((code, body.as_str()), (200, "all\n"));
    assert_eq!(
        cluster.asked().0,
        "/containerLogs/default/p/a?tailLines=3&timestamps=true"
    );
    assert_eq!(
        cluster.message(&format!("{path}?container=waiting")).await,
        (
            400,
            "container \"waiting\" in pod \"p\" is waiting to start: ContainerCreating".to_owned()
        )
    );
    assert_eq!(
        cluster.message(path).await,
        (
            400,
            "a container name must be specified for pod p, choose one of: [a waiting]".to_owned()
        )
    );
    assert_eq!(
        cluster
            .message("/api/v1/namespaces/default/pods/lonely/log?container=a")
            .await,
        (404, "nodes \"missing\" not found".to_owned())
    );
}

#[tokio::test]
async fn disconnect_ends_followed_log() {
    let cluster = Cluster::start().await;
    let request = Request::get("/api/v1/namespaces/default/pods/p/log?container=a&follow=true")
        .header(header::HOST, "localhost")
        .body(Full::default())
        .unwrap();
    let (mut response, task) = cluster.send(request).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/plain");
    let first = response.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "line\n");
    assert_eq!(cluster.seen.following.load(Ordering::SeqCst), 1);
    drop(response);
    drop(task);
    let disconnected = async {
        while cluster.seen.following.load(Ordering::SeqCst) > 0 {
            cluster.seen.ended.notified().await;
        }
    };
    time::timeout(PATIENCE, disconnected).await.unwrap();
}

#[tokio::test]
async fn upgrade_tunnels_with_half_close() {
    let cluster = Cluster::start().await;
    let (mut response, _task) = cluster.exec().await;
    assert_eq!(response.status(), 101);
    assert_eq!(response.headers()["x-own"], "kept");
    let mut io = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    io.write_all(b"hello").await.unwrap();
    let mut got = [0; 5];
    time::timeout(PATIENCE, io.read_exact(&mut got))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&got, b"HELLO");
    io.shutdown().await.unwrap();
    let mut rest = String::new();
    time::timeout(PATIENCE, io.read_to_string(&mut rest))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(rest, "bye");
    let (uri, headers) = cluster.asked();
    assert_eq!(uri, "/exec/default/p/a?command=echo&command=a+b&input=1&output=1");
    assert_eq!(headers["x-stream-protocol-version"], "v4.channel.k8s.io");
    assert!(!headers.contains_key(header::COOKIE));
}

#[tokio::test]
async fn exec_without_upgrade_is_rejected() {
    let cluster = Cluster::start().await;
    assert_eq!(
        cluster
            .message("/api/v1/namespaces/default/pods/p/exec?container=a&command=ls")
            .await,
        (400, "Upgrade request required".to_owned())
    );
}

#[tokio::test]
async fn tunnels_end_with_server() {
    let mut cluster = Cluster::start().await;
    let (mut response, _task) = cluster.exec().await;
    let mut io = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    cluster.stop.send(true).unwrap();
    let mut rest = Vec::new();
    // However it ends, it does.
    let _ = time::timeout(PATIENCE, io.read_to_end(&mut rest)).await.unwrap();
    cluster.tasks.abort_all();
}

#[tokio::test]
async fn proxies_to_node() {
    let cluster = Cluster::start().await;
    let (code, body) = cluster.get("/api/v1/nodes/n/proxy/a%2Fb?x=y").await;
    assert_eq!((code, body.as_str()), (404, "nothing here"));
    let (uri, headers) = cluster.asked();
    assert_eq!(uri, "/a%2Fb?x=y");
    assert_eq!(headers["x-forwarded-uri"], "/api/v1/nodes/n/proxy/a%2Fb");
    assert_eq!(headers["x-forwarded-for"], "127.0.0.1");
    let (code, _) = cluster.get("/api/v1/nodes/n/proxy").await;
    assert_eq!(code, 301);
    assert_eq!(
        cluster.message("/api/v1/nodes/n:1234/proxy/").await,
        (400, "address not allowed".to_owned())
    );
}

#[tokio::test]
async fn never_proxies_to_itself() {
    let cluster = Cluster::start().await;
    for address in ["127.0.0.1", "::ffff:127.0.0.1", "localhost", "2130706433"] {
        cluster
            .put_node("n", address, cluster.api.port(), &json!({}))
            .await;
        for path in [
            "/api/v1/nodes/n/proxy/api/v1/secrets",
            "/api/v1/namespaces/default/pods/p/log?container=a",
            "/api/v1/namespaces/default/pods/p/log?container=a&insecureSkipTLSVerifyBackend=true",
        ] {
            assert_eq!(
                cluster.message(path).await,
                (
                    400,
                    "address not allowed: it is an address of this API server".to_owned()
                ),
                "{address} {path}"
            );
        }
    }
}

#[tokio::test]
async fn verifies_node_certificate() {
    let cluster = Cluster::start().await;
    cluster
        .put_node("m", "127.0.0.1", cluster.node.port(), &json!({}))
        .await;
    let (code, message) = cluster.message("/api/v1/nodes/m/proxy/pods").await;
    assert_eq!(code, 503);
    assert!(
        message.ends_with(r#"certificate is valid for "system:node:n", not for node "m""#),
        "{message}"
    );
    assert!(cluster.seen.asked.lock().is_empty());
}

#[tokio::test]
async fn simulated_node_is_never_dialled() {
    let cluster = Cluster::start().await;
    // It names an address with a listener, as if it were on the network of a user.
    let info = json!({"nodeInfo": {"containerRuntimeVersion": "simulated://1"}});
    cluster
        .put_node("n", "127.0.0.1", cluster.node.port(), &info)
        .await;
    let pod = "/api/v1/namespaces/default/pods/p";
    let simulated = "node \"n\" is simulated: its pods have no containers, so logs, exec, attach, port-forward and proxy \
        are not available";
    for path in [
        format!("{pod}/log?container=a"),
        format!("{pod}/log?container=a&insecureSkipTLSVerifyBackend=true"),
        format!("{pod}/exec?container=a&command=ls"),
        format!("{pod}/attach?container=a"),
        format!("{pod}/portforward"),
        format!("{pod}/proxy/"),
        "/api/v1/nodes/n/proxy/pods".to_owned(),
        "/api/v1/nodes/n:80/proxy/pods".to_owned(),
    ] {
        assert_eq!(
            cluster.message(&path).await,
            (400, simulated.to_owned()),
            "{path}"
        );
    }
    let (response, _task) = cluster.exec().await;
    assert_eq!(response.status(), 400);
    let (_, metrics) = cluster.get("/apis/metrics.k8s.io/v1beta1/nodes").await;
    let metrics: Value = serde_json::from_str(&metrics).unwrap();
    assert_eq!(metrics["items"], json!([]));
    assert!(cluster.seen.asked.lock().is_empty());
    // The address alone is enough: what a node says of its runtime does not matter.
    for address in ["198.18.0.1", "::ffff:198.19.1.2", "240.0.0.2"] {
        cluster.put_node("n", address, 10250, &json!({})).await;
        let (code, message) = cluster.message("/api/v1/nodes/n/proxy/pods").await;
        assert_eq!(code, 400, "{message}");
        assert!(message.contains("routes nowhere"), "{message}");
    }
}

#[tokio::test]
async fn proxies_to_pod_by_canonical_address() {
    let cluster = Cluster::start().await;
    let pod = "/api/v1/namespaces/default/pods/p";
    // IPv4-mapped addresses are refused when they are written, too; the unit tests of the dialer have them.
    for address in [
        "127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "0.0.0.0",
        "::",
    ] {
        let mut changed: Value = serde_json::from_str(&cluster.get(pod).await.1).unwrap();
        changed["status"]["podIPs"] = json!([{"ip": address}]);
        changed["status"]["podIP"] = json!(address);
        cluster
            .write(Method::PUT, &format!("{pod}/status"), &changed)
            .await;
        let path = format!("/api/v1/namespaces/default/pods/p:{}/proxy/", cluster.node.port());
        assert_eq!(
            cluster.message(&path).await,
            (400, "address not allowed".to_owned()),
            "{address}"
        );
    }
}

#[tokio::test]
async fn kubelet_client_role_is_bound() {
    let cluster = Cluster::start().await;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/k3.io:kube-apiserver-kubelet-client";
    let binding: Value = serde_json::from_str(&cluster.get(path).await.1).unwrap();
    assert_eq!(binding["roleRef"]["name"], "system:kubelet-api-admin");
    assert_eq!(binding["subjects"][0]["name"], k3_apiserver::NODE_CLIENT_USER);
}

#[tokio::test]
async fn proxies_service_only_to_pods() {
    let cluster = Cluster::start().await;
    // Nothing is called there, which shows that otherwise it would have been.
    let address = "239.0.0.1";
    let pod = "/api/v1/namespaces/default/pods/p";
    let mut changed: Value = serde_json::from_str(&cluster.get(pod).await.1).unwrap();
    changed["status"]["podIPs"] = json!([{"ip": address}]);
    cluster
        .write(Method::PUT, &format!("{pod}/status"), &changed)
        .await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "s"}},
        "endpoints": [{"addresses": [address]}],
        "ports": [{"name": "", "port": 80}],
    });
    cluster.write(Method::POST, slices, &slice).await;
    let service = "/api/v1/namespaces/default/services/s/proxy/";
    assert_eq!(
        cluster.message(service).await,
        (503, "no endpoints available for service \"s\"".to_owned())
    );
    slice["endpoints"][0]["targetRef"] = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    cluster.write(Method::PUT, &format!("{slices}/s"), &slice).await;
    assert_eq!(
        cluster.message(service).await,
        (400, "address not allowed".to_owned())
    );
}

#[tokio::test]
async fn node_metrics_are_cached() {
    let cluster = Cluster::start().await;
    let get = async |path: &str| -> Value { serde_json::from_str(&cluster.get(path).await.1).unwrap() };
    let nodes = get("/apis/metrics.k8s.io/v1beta1/nodes").await;
    assert_eq!(nodes["kind"], "NodeMetricsList");
    assert_eq!(nodes["items"][0]["usage"], json!({"cpu": "7n", "memory": "1Ki"}));
    let pods = get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods").await;
    assert_eq!(
        pods["items"][0]["containers"],
        json!([{"name": "a", "usage": {"cpu": "3n", "memory": "2Ki"}}])
    );
    assert_eq!(pods["items"].as_array().unwrap().len(), 1);
    assert_eq!(cluster.seen.summaries.load(Ordering::SeqCst), 1);
    assert_eq!(
        cluster
            .message("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/lonely")
            .await,
        (404, "pods.metrics.k8s.io \"default/lonely\" not found".to_owned())
    );
    let none = get("/apis/metrics.k8s.io/v1beta1/pods?labelSelector=a%3Db").await;
    assert_eq!(none["items"], json!([]));
    let groups = get("/apis").await;
    let groups = groups["groups"].as_array().unwrap();
    assert!(groups.iter().any(|group| group["name"] == "metrics.k8s.io"));
    let services = get("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io").await;
    assert_eq!(services["spec"]["version"], "v1beta1");
}
