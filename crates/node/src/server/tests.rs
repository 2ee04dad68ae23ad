//! The server as its clients see it: who is let in, and what they are told.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, client::Body};
use kubecontroller::{Clock, manager::Stop};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig as TlsConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    server::WebPkiClientVerifier,
};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsConnector;

use super::{Lookup, NodeServer, ServerConfig};
use crate::runtime::Runtime;

/// One pod that waits to start, and no runtime.
struct Waiting;

#[async_trait]
impl Lookup for Waiting {
    fn runtime(&self) -> Option<Arc<dyn Runtime>> {
        None
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        let status = json!({
            "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ContainerCreating"}},
        });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "uid": "u"},
            "spec": {"containers": [{"name": "c"}]},
            "status": {"containerStatuses": [status]},
        });
        vec![Arc::new(serde_json::from_value(pod).unwrap())]
    }
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Authority {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            chain: vec![certificate.der().clone()],
            key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        Arc::new(roots)
    }
}

/// An API server that knows the token `good` as alice, and lets nobody do anything but admin, and alice see figures.
fn api(asked: Arc<AtomicUsize>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        asked.fetch_add(1, Ordering::SeqCst);
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            review["status"] = if review["kind"] == "TokenReview" {
                match review["spec"]["token"].as_str() {
                    Some("good") => json!({"authenticated": true, "user": {"username": "alice"}}),
                    _ => json!({"authenticated": false}),
                }
            } else {
                let attributes = &review["spec"]["resourceAttributes"];
                let is_admin = review["spec"]["user"] == "admin";
                json!({"allowed": is_admin || attributes["subresource"] == "metrics"})
            };
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
        }
    });
    Client::new(service, "default")
}

struct Served {
    address: SocketAddr,
    authority: Authority,
    asked: Arc<AtomicUsize>,
    stop: Stop,
    tasks: JoinSet<()>,
}

impl Served {
    async fn start() -> Self {
        let authority = Authority::new();
        let node = authority.sign("system:node:n", ExtendedKeyUsagePurpose::ServerAuth);
        let provider = Arc::new(default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(authority.roots(), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .unwrap();
        let tls = TlsConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(node.chain, node.key)
            .unwrap();
        let asked = Arc::default();
        let config = ServerConfig {
            node: "n".to_owned(),
            client: api(Arc::clone(&asked)),
            clock: Clock::system(),
            folder: "/".into(),
        };
        let server = NodeServer::new(config, Arc::new(Waiting));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Stop::new();
        let mut tasks = JoinSet::new();
        let stopped = stop.clone();
        tasks.spawn(async move { server.serve(listener, Arc::new(tls), stopped).await });
        Served {
            address,
            authority,
            asked,
            stop,
            tasks,
        }
    }

    /// Asks with a certificate for this user, or with none.
    async fn ask(&self, user: Option<&str>, request: Request<Empty<Bytes>>) -> (u16, String) {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.authority.roots());
        let config = match user {
            None => builder.with_no_client_auth(),
            Some(user) => {
                let identity = self.authority.sign(user, ExtendedKeyUsagePurpose::ClientAuth);
                builder
                    .with_client_auth_cert(identity.chain, identity.key)
                    .unwrap()
            }
        };
        let stream = TcpStream::connect(self.address).await.unwrap();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from("127.0.0.1").unwrap(), stream)
            .await
            .unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let _ = connection.await;
        });
        let response = sender.send_request(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(path)
        .header(header::HOST, "node")
        .body(Empty::new())
        .unwrap()
}

fn with_token(path: &str, token: &str) -> Request<Empty<Bytes>> {
    let mut request = get(path);
    let value = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert(header::AUTHORIZATION, value);
    request
}

#[tokio::test]
async fn only_those_are_let_in_whom_the_api_server_lets() {
    let server = Served::start().await;
    let told = |code, text: &str| (code, text.to_owned());
    assert_eq!(server.ask(None, get("/healthz")).await, told(401, "Unauthorized"));
    assert_eq!(
        server.ask(None, with_token("/healthz", "bad")).await,
        told(401, "Unauthorized")
    );
    assert_eq!(server.ask(Some("admin"), get("/healthz")).await, told(200, "ok"));
    assert_eq!(
        server.ask(Some("bob"), get("/pods")).await,
        told(
            403,
            "Forbidden (user=bob, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"
        )
    );
    assert_eq!(server.ask(None, with_token("/metrics", "good")).await.0, 200);
    assert_eq!(server.ask(None, with_token("/pods", "good")).await.0, 403);
}

#[tokio::test]
async fn answers_of_the_api_server_are_remembered() {
    let server = Served::start().await;
    for _ in 0..3 {
        assert_eq!(server.ask(None, with_token("/metrics", "good")).await.0, 200);
    }
    assert_eq!(server.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn what_is_not_there_is_told_in_the_words_of_upstream() {
    let server = Served::start().await;
    for (path, code, text) in [
        (
            "/containerLogs/default/p/c",
            400,
            "container \"c\" in pod \"p\" is waiting to start: ContainerCreating",
        ),
        (
            "/containerLogs/default/p/c?previous=true",
            400,
            "previous terminated container \"c\" in pod \"p\" not found",
        ),
        ("/containerLogs/default/x/c", 404, "pod \"x\" does not exist"),
        (
            "/containerLogs/default/p/x",
            404,
            "container \"x\" not found in pod \"p\"",
        ),
        (
            "/containerLogs/default/p/c?tailLines=-1",
            422,
            "{\"message\": \"Invalid request.\"}",
        ),
        (
            "/exec/default/p/c",
            400,
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
        ("/exec/default/x/c?output=1", 404, "pod does not exist"),
        ("/exec/default/p/other/c?output=1", 404, "pod not found"),
        ("/run/default/p/c", 405, "Method Not Allowed"),
        ("/logs/", 404, "404: Page Not Found"),
    ] {
        assert_eq!(
            server.ask(Some("admin"), get(path)).await,
            (code, text.to_owned()),
            "{path}"
        );
    }
    let (_, pods) = server.ask(Some("admin"), get("/pods")).await;
    let pods: Value = serde_json::from_str(&pods).unwrap();
    assert_eq!(
        (&pods["kind"], &pods["items"][0]["metadata"]["name"]),
        (&json!("PodList"), &json!("p"))
    );
}

#[tokio::test]
async fn the_server_ends_when_it_is_stopped() {
    let mut server = Served::start().await;
    let _idle = TcpStream::connect(server.address).await.unwrap();
    server.stop.stop(Duration::ZERO);
    let ended = tokio::time::timeout(Duration::from_secs(20), server.tasks.join_next()).await;
    assert!(matches!(ended, Ok(Some(Ok(())))));
}
