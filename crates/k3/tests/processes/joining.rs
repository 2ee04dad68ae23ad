//! Machines that become nodes.

use std::{fs, path::Path};

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kubecontroller::testing::eventually;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use crate::{
    process::{Process, beats, client, join_token, node},
    program::{Data, k3, outcome},
};

const NAME: &str = "n2";

#[tokio::test]
async fn a_machine_joins_with_a_token_once_and_needs_none_again() {
    let cluster = Data::new();
    let server = cluster.start(&["--storage=memory"]);
    let client = client(&server.kubeconfig).await;
    let nodes = Api::<Node>::all(client.clone());
    let token = &*join_token(&server.kubeconfig);
    // The server listens on this machine alone.
    let url = format!("https://127.0.0.1:{}", server.port());
    let machine = Data::new();

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
    assert!(errors.contains("another authority"), "{errors}");

    let unknown = format!("{}::zzzzzz.zzzzzzzzzzzzzzzz", token.split_once("::").unwrap().0);
    let args = node(NAME, machine.path(), &["--server", &url, "--token", &unknown]);
    let (code, _, errors) = outcome(&mut k3(&args));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("expired"), "{errors}");

    let first = Process::start(
        machine.path(),
        &node(NAME, machine.path(), &["--server", &url, "--token", token]),
    );
    let uid = async || Some(nodes.get_opt("n2").await.unwrap()?.metadata.uid);
    let known = eventually(uid).await;
    let (code, log) = first.end();
    assert_eq!(code, Some(0), "{log}");

    let other = Data::new();
    let args = node(NAME, other.path(), &["--server", &url, "--token", token]);
    let (code, _, errors) = outcome(&mut k3(&args));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("has a node n2 already"), "{errors}");

    nodes
        .delete("n2", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let _second = Process::start(machine.path(), &node(NAME, machine.path(), &[]));
    let again = eventually(uid).await;
    assert_ne!(again, known);
}

#[tokio::test]
async fn a_certificate_that_comes_near_its_end_is_renewed_and_the_node_goes_on() {
    let cluster = Data::new();
    let server = cluster.start(&["--storage=memory"]);
    let client = client(&server.kubeconfig).await;
    // Nodes may renew their certificates from the first token on.
    let token = join_token(&server.kubeconfig);
    let url = format!("https://127.0.0.1:{}", server.port());
    let machine = Data::new();
    let joined = Process::start(
        machine.path(),
        &node(NAME, machine.path(), &["--server", &url, "--token", &token]),
    );
    beats(&client, NAME).await;
    assert_eq!(joined.end().0, Some(0));
    let tls = cluster.path().join("tls");
    let (certificate, key) = nearly_ended(&tls);
    let mut identity = identity(machine.path());
    identity["certificate"] = json!(certificate);
    identity["key"] = json!(key);
    fs::write(file(machine.path()), identity.to_string()).unwrap();
    let _node = Process::start(machine.path(), &node(NAME, machine.path(), &[]));
    let renewed = async || {
        let now = self::identity(machine.path())["certificate"].clone();
        now != json!(certificate)
    };
    eventually(renewed).await;
    beats(&client, NAME).await;
}

fn file(machine: &Path) -> std::path::PathBuf {
    machine.join("node/pki/identity.json")
}

fn identity(machine: &Path) -> Value {
    serde_json::from_slice(&fs::read(file(machine)).unwrap()).unwrap()
}

/// A certificate for the node of the authority in a folder that has ten minutes left of a day, and its key.
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
