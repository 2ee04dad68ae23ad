//! Tests of the kubelet API over TLS: authentication, authorization, error responses.

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

use super::{HostInterface, KubeletServer, KubeletServerConfig};
use crate::runtime::Runtime;

/// A host with one waiting pod and no runtime.
struct OneWaitingPod;

#[async_trait]
impl HostInterface for OneWaitingPod {
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

struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

struct TestIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl TestAuthority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        TestAuthority {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> TestIdentity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        TestIdentity {
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

/// An API server. The token `good` belongs to alice. Admin is permitted everything, other users only `nodes/metrics`.
fn api(review_count: Arc<AtomicUsize>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        review_count.fetch_add(1, Ordering::SeqCst);
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

struct TestServer {
    address: SocketAddr,
    authority: TestAuthority,
    review_count: Arc<AtomicUsize>,
    stop: Stop,
    tasks: JoinSet<()>,
}

impl TestServer {
    async fn start() -> Self {
        let authority = TestAuthority::new();
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
        let review_count = Arc::default();
        let config = KubeletServerConfig {
            node: "n".to_owned(),
            client: api(Arc::clone(&review_count)),
            clock: Clock::system(),
            data_dir: "/".into(),
        };
        let server = KubeletServer::new(config, Arc::new(OneWaitingPod));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Stop::new();
        let mut tasks = JoinSet::new();
        let stopped = stop.clone();
        tasks.spawn(async move { server.serve(listener, Arc::new(tls), stopped).await });
        TestServer {
            address,
            authority,
            review_count,
            stop,
            tasks,
        }
    }

    /// Sends a request with a client certificate for `user`, if given.
    async fn request(&self, user: Option<&str>, request: Request<Empty<Bytes>>) -> (u16, String) {
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
async fn rejects_unauthorized_requests() {
    let server = TestServer::start().await;
    let expected = |code, text: &str| (code, text.to_owned());
    assert_eq!(
        server.request(None, get("/healthz")).await,
        expected(401, "Unauthorized")
    );
    assert_eq!(
        server.request(None, with_token("/healthz", "bad")).await,
        expected(401, "Unauthorized")
    );
    assert_eq!(
        server.request(Some("admin"), get("/healthz")).await,
        expected(200, "ok")
    );
    assert_eq!(
        server.request(Some("bob"), get("/pods")).await,
        expected(
            403,
            "Forbidden (user=bob, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"
        )
    );
    assert_eq!(server.request(None, with_token("/metrics", "good")).await.0, 200);
    assert_eq!(server.request(None, with_token("/pods", "good")).await.0, 403);
}

#[tokio::test]
async fn caches_reviews() {
    let server = TestServer::start().await;
    for _ in 0..3 {
        assert_eq!(server.request(None, with_token("/metrics", "good")).await.0, 200);
    }
    assert_eq!(server.review_count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn error_messages_equal_upstreams() {
    let server = TestServer::start().await;
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
            server.request(Some("admin"), get(path)).await,
            (code, text.to_owned()),
            "{path}"
        );
    }
    let (_, pods) = server.request(Some("admin"), get("/pods")).await;
    let pods: Value = serde_json::from_str(&pods).unwrap();
    assert_eq!(
        (&pods["kind"], &pods["items"][0]["metadata"]["name"]),
        (&json!("PodList"), &json!("p"))
    );
}

#[tokio::test]
async fn stops_with_open_connections() {
    let mut server = TestServer::start().await;
    let _idle = TcpStream::connect(server.address).await.unwrap();
    server.stop.stop(Duration::ZERO);
    let ended = tokio::time::timeout(Duration::from_secs(20), server.tasks.join_next()).await;
    assert!(matches!(ended, Ok(Some(Ok(())))));
}
