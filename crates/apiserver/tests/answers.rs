//! Every request gets an answer: when it is refused before its body is read, when it is costly, and when the server stops.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::{
    convert::Infallible,
    error::Error as _,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::Frame,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k3_apiserver::{
    Authentication, Config, EndpointReconcilerType, Limits, PodAccounts, Server, service_range,
};
use k3_storage::memory::MemoryStore;
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

const PATIENCE: Duration = Duration::from_mins(1);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Enough that it does not fit into what is sent before the answer.
const BODY: usize = 100 * 1024;
const LIMIT: usize = 256 * 1024;

type UploadBody = UnsyncBoxBody<Bytes, Infallible>;

/// A server behind TLS, to which requests from this machine are those of the administrator.
struct Cluster {
    address: SocketAddr,
    roots: RootCertStore,
    stop: watch::Sender<()>,
    serving: JoinSet<()>,
}

/// Whether requests without credentials are those of the administrator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LocalhostAccess {
    Localhost,
    None,
}

// --- Cluster ---

impl Cluster {
    async fn start(trust: LocalhostAccess) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let tls = server_tls(certificate.der().clone(), &key);
        let config = Config {
            authentication: Authentication {
                localhost: trust == LocalhostAccess::Localhost,
                ..Authentication::default()
            },
            service_range: service_range("10.0.0.0/24").unwrap(),
            issuer: "https://kubernetes.default.svc".to_owned(),
            signing_key: KeyPair::generate().unwrap().serialize_der(),
            unrestricted_update: false,
            advertise: (Ipv4Addr::LOCALHOST.into(), 6443),
            endpoint_reconciler: EndpointReconcilerType::Hidden,
            guard_owners: false,
            pod_accounts: PodAccounts::Free,
            limits: Limits::default(),
            audit: None,
            nodes: None,
            usage: false,
        };
        let server = Server::start(config, MemoryStore::new()).await.unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, mut stopped) = watch::channel(());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let stopped = async move {
                let _ = stopped.changed().await;
            };
            server.serve(listener, tls, stopped).await;
        });
        Cluster {
            address,
            roots,
            stop,
            serving,
        }
    }

    async fn stop(self) {
        drop(self.stop);
        let mut serving = self.serving;
        time::timeout(PATIENCE, serving.join_next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }

    fn client(&self) -> Client {
        Client {
            address: self.address,
            roots: self.roots.clone(),
        }
    }
}

fn server_tls(certificate: CertificateDer<'static>, key: &KeyPair) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// How to reach a server.
#[derive(Clone)]
struct Client {
    address: SocketAddr,
    roots: RootCertStore,
}

// --- Client ---

impl Client {
    async fn connect(&self, protocol: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let tcp = TcpStream::connect(self.address).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await
    }

    async fn http2(&self) -> std::io::Result<(http2::SendRequest<UploadBody>, JoinSet<()>)> {
        let stream = self.connect("h2").await?;
        let made = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(std::io::Error::other)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            let _ = connection.await;
        });
        Ok((sender, driver))
    }

    async fn http1(&self) -> std::io::Result<(http1::SendRequest<UploadBody>, JoinSet<()>)> {
        let stream = self.connect("http/1.1").await?;
        let made = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(std::io::Error::other)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            let _ = connection.await;
        });
        Ok((sender, driver))
    }

    fn request(&self, method: Method, path: &str, body: UploadBody) -> Request<UploadBody> {
        Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.address))
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .unwrap()
    }
}

fn whole(bytes: impl Into<Bytes>) -> UploadBody {
    Full::new(bytes.into()).boxed_unsync()
}

/// A body that arrives after the head of its request.
fn late(length: usize) -> UploadBody {
    let pieces = stream::unfold(length, |left| async move {
        if left == 0 {
            return None;
        }
        time::sleep(Duration::from_millis(1)).await;
        let piece = left.min(16 * 1024);
        let frame = Frame::data(Bytes::from(vec![b' '; piece]));
        Some((Ok::<_, Infallible>(frame), left - piece))
    });
    StreamBody::new(pieces).boxed_unsync()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_rejection_delivers_status_over_http2() {
    let cluster = Cluster::start(LocalhostAccess::Localhost).await;
    let client = cluster.client();
    for (path, length, code, rounds) in [
        ("/api/v1/namespaces/default/nothing", BODY, 404, 20),
        ("/api/v1/namespaces/default/configmaps/a", BODY, 405, 20),
        (CONFIG_MAPS, 4 * 1024 * 1024, 413, 2),
    ] {
        let (mut sender, _driver) = client.http2().await.unwrap();
        for round in 0..rounds {
            sender.ready().await.unwrap();
            let request = client.request(Method::POST, path, late(length));
            let answered = time::timeout(PATIENCE, sender.send_request(request))
                .await
                .unwrap();
            let answer = answered.unwrap_or_else(|error| panic!("{code}, round {round}: {error:?}"));
            assert_eq!(answer.status().as_u16(), code);
            let body = answer.into_body().collect().await;
            assert!(
                !body
                    .unwrap_or_else(|error| panic!("{code}: {error:?}"))
                    .to_bytes()
                    .is_empty()
            );
        }
    }
    cluster.stop().await;
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;

/// The kind, flags and payload of each whole frame in these bytes.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (u8, u8, &[u8])> {
    std::iter::from_fn(move || {
        let [a, b, c, kind, flags, _, _, _, _, rest @ ..] = bytes else {
            return None;
        };
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (payload, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        Some((*kind, *flags, payload))
    })
}

/// A client that sends all of its body before it reads, as one does whose network is slow to bring the answer: closing a connection
/// with bytes unread resets it, and the answer is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unauthenticated_client_reads_401_after_sending_body() {
    let cluster = Cluster::start(LocalhostAccess::None).await;
    let client = cluster.client();
    let path = CONFIG_MAPS.as_bytes();
    let block = [
        &[0x83, 0x87, 0x01, 2],
        &b"k3"[..],
        &[0x04, u8::try_from(path.len()).unwrap()],
        path,
    ]
    .concat();
    for round in 0..10 {
        let mut stream = client.connect("h2").await.unwrap();
        let preface = [
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
            &frame(SETTINGS, 0, 0, b""),
        ]
        .concat();
        stream.write_all(&preface).await.unwrap();
        stream.write_all(&frame(HEADERS, 0x4, 1, &block)).await.unwrap();
        for _ in 0..4 {
            time::sleep(Duration::from_millis(10)).await;
            let sent = stream.write_all(&frame(DATA, 0, 1, &[b' '; 15_000])).await;
            sent.unwrap_or_else(|error| panic!("round {round}: the connection is closed: {error}"));
        }
        stream.write_all(&frame(DATA, 1, 1, b"")).await.unwrap();
        // The answer to this comes after all that was sent before.
        stream.write_all(&frame(PING, 0, 0, b"all said")).await.unwrap();
        let mut received = Vec::new();
        let mut piece = [0; 4096];
        while !frames(&received).any(|frame| frame == (PING, 1, &b"all said"[..])) {
            let read = time::timeout(PATIENCE, stream.read(&mut piece)).await.unwrap();
            let length = read.unwrap_or_else(|error| panic!("round {round}: no answer: {error}"));
            assert!(length > 0, "round {round}: {received:?}");
            received.extend_from_slice(&piece[..length]);
        }
        let has_answer = |(kind, _, payload): (u8, u8, &[u8])| {
            kind == DATA && String::from_utf8_lossy(payload).contains("\"code\":401")
        };
        assert!(frames(&received).any(has_answer), "round {round}");
        // A stream that is reset while its client sends is an error to curl, whatever was answered before.
        assert!(frames(&received).all(|(kind, ..)| kind != RESET), "round {round}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_rejection_delivers_status_over_http1_with_and_without_expect() {
    let cluster = Cluster::start(LocalhostAccess::None).await;
    let client = cluster.client();
    for (expect, length) in [
        ("", BODY),
        ("Expect: 100-continue\r\n", BODY),
        ("", 20 * 1024 * 1024),
    ] {
        let mut stream = client.connect("http/1.1").await.unwrap();
        let head = format!(
            "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: k3\r\nContent-Type: application/json\r\n{expect}Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        if expect.is_empty() {
            let body = vec![b' '; length];
            // What is far too long may be cut off, but not before the answer was sent.
            let sent = stream.write_all(&body).await;
            assert!(sent.is_ok() || length > 16 * 1024 * 1024, "{sent:?}");
        }
        let mut received = Vec::new();
        let mut piece = [0; 4096];
        while !received.windows(4).any(|end| end == b"\r\n\r\n") {
            let read = time::timeout(PATIENCE, stream.read(&mut piece))
                .await
                .unwrap()
                .unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&received));
            received.extend_from_slice(&piece[..read]);
        }
        let text = String::from_utf8_lossy(&received);
        assert!(text.starts_with("HTTP/1.1 401 "), "{expect}{length}: {text}");
    }
    cluster.stop().await;
}

/// Sends a body with curl, over HTTP/2 and a connection of its own. Gives the status and the version of HTTP.
fn curl(url: &str, body: &Path) -> String {
    let output = Command::new("curl")
        .args([
            "--http2",
            "--insecure",
            "--silent",
            "--show-error",
            "--max-time",
            "60",
        ])
        .args([
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code} over %{http_version}",
        ])
        .args(["--header", "Content-Type: application/json", "--data-binary"])
        .arg(format!("@{}", body.display()))
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .expect("curl is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{url}: {}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// curl sends its body as fast as the server takes it. A stream that is reset before it has read the answer is an error to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_reads_early_rejection_over_http2() {
    const ROUNDS: usize = 25;
    let directory = tempfile::tempdir().unwrap();
    let body = directory.path().join("body");
    std::fs::write(&body, vec![b' '; BODY]).unwrap();
    for (trust, path, code) in [
        (LocalhostAccess::None, CONFIG_MAPS, 401),
        (
            LocalhostAccess::Localhost,
            "/api/v1/namespaces/default/nothing",
            404,
        ),
        (
            LocalhostAccess::Localhost,
            "/api/v1/namespaces/default/configmaps/a",
            405,
        ),
    ] {
        let cluster = Cluster::start(trust).await;
        let url = format!("https://{}{path}", cluster.address);
        let body = body.clone();
        let answers = tokio::task::spawn_blocking(move || {
            let answers = (0..ROUNDS).map(|_| curl(&url, &body));
            answers.collect::<Vec<_>>()
        });
        for (round, answer) in answers.await.unwrap().into_iter().enumerate() {
            assert_eq!(answer, format!("{code} over 2"), "round {round}");
        }
        cluster.stop().await;
    }
}

/// A `ConfigMap` that names many owners, none of them as it should be.
fn many_owners(count: usize) -> String {
    let owner =
        |number: usize| json!({"apiVersion": "v1", "kind": "Node", "name": format!("n{number}"), "uid": ""});
    let owners: Vec<Value> = (0..count).map(owner).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": owners}})
        .to_string()
}

/// The only thread serves connections: a request that computed on it would keep out all others.
#[tokio::test(flavor = "current_thread")]
async fn costly_request_does_not_block_others_and_error_is_bounded() {
    let cluster = Cluster::start(LocalhostAccess::Localhost).await;
    let client = cluster.client();
    let (mut sender, _driver) = client.http2().await.unwrap();
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    let request = client.request(Method::POST, &path, whole(many_owners(3_000)));
    let is_answered = AtomicBool::new(false);
    let costly = async {
        let answer = sender.send_request(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        is_answered.store(true, Relaxed);
        (code, body.len())
    };
    let others = async {
        let (mut sender, _driver) = client.http1().await.unwrap();
        let mut answers = 0;
        while !is_answered.load(Relaxed) {
            let request = client.request(Method::GET, "/healthz", whole(Bytes::new()));
            let answer = sender.send_request(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            answer.into_body().collect().await.unwrap();
            answers += 1;
        }
        answers
    };
    let ((code, length), answers) = time::timeout(PATIENCE, async { tokio::join!(costly, others) })
        .await
        .unwrap();
    assert_eq!(code, 422);
    assert!(length <= LIMIT, "{length}");
    assert!(
        answers >= 10,
        "{answers} requests of others were answered meanwhile"
    );
    cluster.stop().await;
}

/// What became of requests while the server stopped.
#[derive(Default)]
struct RequestOutcomes {
    answered: AtomicUsize,
    unanswered: parking_lot::Mutex<Vec<String>>,
}

/// Whether the server said in good order that it did not look at a request, or the request was never sent.
fn is_orderly(error: &hyper::Error) -> bool {
    let text = format!("{error:?}");
    let cause = error
        .source()
        .map(|cause| format!("{cause:?}"))
        .unwrap_or_default();
    error.is_canceled()
        || [text, cause]
            .iter()
            .any(|text| text.contains("GoAway") && text.contains("NO_ERROR"))
}

async fn load_http2(client: Client, outcomes: Arc<RequestOutcomes>) {
    let Ok((mut sender, _driver)) = client.http2().await else {
        return;
    };
    loop {
        if sender.ready().await.is_err() {
            return;
        }
        let request = client.request(Method::GET, "/api/v1/namespaces/default", whole(Bytes::new()));
        let answered = async { sender.send_request(request).await?.into_body().collect().await };
        match answered.await {
            Ok(_) => drop(outcomes.answered.fetch_add(1, Relaxed)),
            Err(error) if is_orderly(&error) => return,
            Err(error) => {
                return outcomes.unanswered.lock().push(format!("http2: {error:?}"));
            }
        }
    }
}

async fn load_http1(client: Client, outcomes: Arc<RequestOutcomes>, number: usize) {
    for round in 0.. {
        // A connection that is not accepted any more is an answer, too.
        let Ok((mut sender, _driver)) = client.http1().await else {
            return;
        };
        for part in 0.. {
            if sender.ready().await.is_err() {
                break;
            }
            let object =
                json!({"metadata": {"name": format!("c-{number}-{round}-{part}")}, "data": {"a": "b"}});
            let request = client.request(Method::POST, CONFIG_MAPS, whole(object.to_string()));
            let answered = async { sender.send_request(request).await?.into_body().collect().await };
            match answered.await {
                Ok(_) => drop(outcomes.answered.fetch_add(1, Relaxed)),
                Err(error) if is_orderly(&error) => break,
                Err(error) => {
                    return outcomes.unanswered.lock().push(format!("http1: {error:?}"));
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn graceful_shutdown_under_load_answers_every_request() {
    for _ in 0..5 {
        let cluster = Cluster::start(LocalhostAccess::Localhost).await;
        let outcomes = Arc::new(RequestOutcomes::default());
        let mut clients = JoinSet::new();
        for number in 0..8 {
            clients.spawn(load_http2(cluster.client(), Arc::clone(&outcomes)));
            clients.spawn(load_http1(cluster.client(), Arc::clone(&outcomes), number));
        }
        while outcomes.answered.load(Relaxed) < 200 {
            time::sleep(Duration::from_millis(1)).await;
        }
        let unanswered = |outcomes: &RequestOutcomes| outcomes.unanswered.lock().join("\n");
        assert_eq!(unanswered(&outcomes), "", "before the stop");
        cluster.stop().await;
        let all = async { while clients.join_next().await.is_some() {} };
        time::timeout(PATIENCE, all).await.unwrap();
        assert_eq!(unanswered(&outcomes), "");
    }
}
