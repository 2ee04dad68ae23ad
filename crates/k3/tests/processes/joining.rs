//! Machines that become nodes.

use std::{fs, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use k3_node::signing::request_client_certificate;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use kubecontroller::testing::eventually;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use crate::{
    process::{ServerProcess, client, join_token, node, wait_for_lease_renewal},
    program::{TestDataDir, k3, outcome},
};

const NAME: &str = "n2";

#[tokio::test]
async fn joins_with_a_token_and_restarts_without_one() {
    let cluster = TestDataDir::new();
    let server = cluster.start(&["--storage=memory"]);
    let client = client(&server.kubeconfig).await;
    let nodes = Api::<Node>::all(client.clone());
    let token = &*join_token(&server.kubeconfig);
    // The server listens on this machine alone.
    let url = format!("https://127.0.0.1:{}", server.port());
    let machine = TestDataDir::new();

    let another = token.replace(
        &token[2..10],
        if token[2..].starts_with("00000000") {
            "11111111"
        } else {
            "00000000"
        },
    );
    let args = node(NAME, machine.path(), &["--server", &url, "--token", &another]);
    let (code, _, errors) = outcome(&mut k3(&args));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("does not match the token"), "{errors}");

    let unknown = format!("{}::zzzzzz.zzzzzzzzzzzzzzzz", token.split_once("::").unwrap().0);
    let args = node(NAME, machine.path(), &["--server", &url, "--token", &unknown]);
    let (code, _, errors) = outcome(&mut k3(&args));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("expired"), "{errors}");

    let first = ServerProcess::start(
        machine.path(),
        &node(NAME, machine.path(), &["--server", &url, "--token", token]),
    );
    let uid = async || Some(nodes.get_opt("n2").await.unwrap()?.metadata.uid);
    let known = eventually(uid).await;
    // The server proves to the node who it is, the node that it is this node, and the role lets the server in: the node
    // itself says that it has no runtime.
    let answers = async || {
        let request = http::Request::get("/api/v1/nodes/n2/proxy/healthz").body(Vec::new());
        let error = client.request_text(request.unwrap()).await.unwrap_err();
        error.to_string().contains("healthz check failed")
    };
    eventually(answers).await;
    let (code, log) = first.end();
    assert_eq!(code, Some(0), "{log}");

    let other = TestDataDir::new();
    let args = node(NAME, other.path(), &["--server", &url, "--token", token]);
    let (code, _, errors) = outcome(&mut k3(&args));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("a node n2 already exists"), "{errors}");

    nodes
        .delete("n2", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let _second = ServerProcess::start(machine.path(), &node(NAME, machine.path(), &[]));
    let again = eventually(uid).await;
    assert_ne!(again, known);
}

#[tokio::test]
async fn renews_an_expiring_node_certificate() {
    let cluster = TestDataDir::new();
    let server = cluster.start(&["--storage=memory"]);
    let client = client(&server.kubeconfig).await;
    // Nodes may renew their certificates from the first token on.
    let token = join_token(&server.kubeconfig);
    let url = format!("https://127.0.0.1:{}", server.port());
    let machine = TestDataDir::new();
    let joined = ServerProcess::start(
        machine.path(),
        &node(NAME, machine.path(), &["--server", &url, "--token", &token]),
    );
    wait_for_lease_renewal(&client, NAME).await;
    assert_eq!(joined.end().0, Some(0));
    let tls = cluster.path().join("tls");
    let (certificate, key) = nearly_ended(&tls);
    let mut identity = identity(machine.path());
    identity["certificate"] = json!(certificate);
    identity["key"] = json!(key);
    fs::write(file(machine.path()), identity.to_string()).unwrap();
    let _node = ServerProcess::start(machine.path(), &node(NAME, machine.path(), &[]));
    let renewed = async || {
        let now = self::identity(machine.path())["certificate"].clone();
        now != json!(certificate)
    };
    eventually(renewed).await;
    wait_for_lease_renewal(&client, NAME).await;
}

/// A client that shows a token and has not asked whether a name is taken, as `k3 node` does.
async fn bearer(kubeconfig: &Path, limits: &[&str]) -> Client {
    let mut command = k3(&["token", "create", "--join", "--kubeconfig"]);
    let (code, line, errors) = outcome(command.arg(kubeconfig).args(limits));
    assert_eq!(code, Some(0), "{errors}");
    let token = line.trim_end().rsplit_once("::").unwrap().1;
    let mut config = admin_config(kubeconfig).await;
    config.auth_info = AuthInfo {
        token: Some(token.to_owned().into()),
        ..AuthInfo::default()
    };
    Client::try_from(config).unwrap()
}

async fn admin_config(kubeconfig: &Path) -> Config {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(file, &options).await.unwrap()
}

/// Requests a node certificate; returns the message of the server on failure.
async fn request_node_certificate(client: &Client, node: &str) -> Result<(), String> {
    let signed = request_client_certificate(client, node).await;
    signed.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn join_tokens_are_limited_to_new_nodes() {
    let cluster = TestDataDir::new();
    let server = cluster.start(&["--storage=memory"]);
    let admin = client(&server.kubeconfig).await;
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "taken"}})).unwrap();
    let nodes = Api::<Node>::all(admin.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();

    let any = bearer(&server.kubeconfig, &[]).await;
    let error = request_node_certificate(&any, "taken").await.unwrap_err();
    assert!(error.contains(r#"node "taken" exists"#), "{error}");
    assert_eq!(request_node_certificate(&any, "new").await, Ok(()));
    let error = request_node_certificate(&any, "new").await.unwrap_err();
    assert!(error.contains("kubectl delete csr"), "{error}");

    let bound = bearer(&server.kubeconfig, &["--node-name", "bound"]).await;
    let error = request_node_certificate(&bound, "other").await.unwrap_err();
    assert!(
        error.contains(r#"for node "bound", not for node "other""#),
        "{error}"
    );
    assert_eq!(request_node_certificate(&bound, "bound").await, Ok(()));

    let once = bearer(&server.kubeconfig, &["--uses", "1"]).await;
    assert_eq!(request_node_certificate(&once, "first").await, Ok(()));
    let error = request_node_certificate(&once, "second").await.unwrap_err();
    assert!(error.contains("limit"), "{error}");
    let mut list = k3(&["token", "list", "--kubeconfig"]);
    let (_, list, _) = outcome(list.arg(&server.kubeconfig));
    assert!(list.contains("nodes that join as bound"), "{list}");
    assert!(list.contains("nodes that join (1 of 1 uses)"), "{list}");
}

#[tokio::test]
async fn the_kubelet_client_certificate_has_no_api_permissions() {
    let cluster = TestDataDir::new();
    let server = cluster.start(&["--storage=memory"]);
    let read = |name: &str| fs::read(cluster.path().join("tls").join(name)).unwrap();
    let mut config = admin_config(&server.kubeconfig).await;
    config.auth_info = AuthInfo {
        client_certificate_data: Some(STANDARD.encode(read("apiserver-kubelet-client.crt"))),
        client_key_data: Some(STANDARD.encode(read("apiserver-kubelet-client.key")).into()),
        ..AuthInfo::default()
    };
    let deputy = Client::try_from(config).unwrap();
    let error = deputy.list_api_groups().await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 401),
        "{error}"
    );

    // And a node that names the server is not called.
    let admin = client(&server.kubeconfig).await;
    let nodes = Api::<Node>::all(admin.clone());
    let node = json!({"metadata": {"name": "mirror"}, "status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": server.port()}},
    }});
    let node: Node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let path = "/api/v1/nodes/mirror/proxy/api/v1/secrets";
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let error = admin.request::<Value>(request).await.unwrap_err();
    assert!(
        error.to_string().contains("an address of this API server"),
        "{error}"
    );
}

fn file(machine: &Path) -> std::path::PathBuf {
    machine.join("node/pki/identity.json")
}

fn identity(machine: &Path) -> Value {
    serde_json::from_slice(&fs::read(file(machine)).unwrap()).unwrap()
}

/// A certificate for the node of the authority in a directory that has ten minutes left of a day, and its key.
fn nearly_ended(tls: &Path) -> (String, String) {
    let named = |common: &str| {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, common);
        parameters
    };
    let mut authority = named("k3-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let key = fs::read_to_string(tls.join("ca.key")).unwrap();
    let issuer = Issuer::new(authority, KeyPair::from_pem(&key).unwrap());
    let mut parameters = named(&format!("system:node:{NAME}"));
    let subject = &mut parameters.distinguished_name;
    subject.push(DnType::OrganizationName, "system:nodes");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let now = OffsetDateTime::now_utc();
    parameters.not_before = now - Duration::days(1);
    parameters.not_after = now + Duration::minutes(10);
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.signed_by(&key, &issuer).unwrap();
    (certificate.pem(), key.serialize_pem())
}
