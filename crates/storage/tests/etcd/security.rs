//! Users and certificates.

use std::fs;

use k3_storage::{
    OpenError, Store,
    etcd::{ClientCertificate, EtcdOptions, EtcdStore, Login, Pem, Tls},
};
use k3_test_services::{Etcd, EtcdOptions as Service};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::{
    gateway,
    support::{TestWatcher, create, impatient, key, until},
};

fn with_login(endpoint: &str, username: &str, password: &str) -> EtcdOptions {
    EtcdOptions {
        login: Some(Login {
            username: username.to_owned(),
            password: password.to_owned(),
        }),
        ..impatient([endpoint.to_owned()])
    }
}

/// Makes etcd ask for a log-in, and knows a user who may use only the store's prefix.
fn protect(endpoint: &str) {
    let call = |method, json: &str| gateway::call(endpoint, method, json);
    for user in ["root", "k3"] {
        call(
            "auth/user/add",
            &format!(r#"{{"name":"{user}","password":"secret"}}"#),
        );
        call("auth/role/add", &format!(r#"{{"name":"{user}"}}"#));
        call(
            "auth/user/grant",
            &format!(r#"{{"user":"{user}","role":"{user}"}}"#),
        );
    }
    let permission = format!(
        r#"{{"name":"k3","perm":{{"permType":"READWRITE","key":"{}","range_end":"{}"}}}}"#,
        gateway::base64("/k3/"),
        gateway::base64("/k30")
    );
    call("auth/role/grant", &permission);
    call("auth/enable", "{}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_in_again_when_the_token_expires() {
    let etcd = Etcd::start().unwrap();
    protect(&etcd.endpoint());
    let store = EtcdStore::open(with_login(&etcd.endpoint(), "k3", "secret"))
        .await
        .unwrap();
    let start = create(&store, "/a/x", "1").await;
    let mut watcher = TestWatcher::start(&store, "/a/", start).await;
    // etcd keeps tokens in memory, and forgets them with this.
    etcd.kill().unwrap();
    etcd.restart().unwrap();
    let written = until("a commit", async || {
        let name = key("/a/y");
        store.commit(k3_storage::Write::create(name, "1")).await.ok()
    })
    .await;
    watcher.reach(written).await;
    assert_eq!(watcher.revisions(), [written]);
    assert!(store.health().await.is_ok());
    let current = store.current_revision().await.unwrap();
    watcher.reach(current).await;
}

#[tokio::test]
async fn a_wrong_password_is_a_settings_error() {
    let etcd = Etcd::start().unwrap();
    protect(&etcd.endpoint());
    for options in [
        with_login(&etcd.endpoint(), "k3", "s3kret"),
        with_login(&etcd.endpoint(), "unknown", "s3kret"),
        impatient([etcd.endpoint()]),
    ] {
        let refused = EtcdStore::open(options).await.map(|_| ());
        assert!(
            matches!(refused, Err(OpenError::InvalidSetting { setting: "login", .. })),
            "{refused:?}"
        );
        assert!(!format!("{refused:?}").contains("s3kret"));
    }
}

#[tokio::test]
async fn accepts_a_login_that_etcd_does_not_need() {
    let etcd = Etcd::start().unwrap();
    let store = EtcdStore::open(with_login(&etcd.endpoint(), "k3", "secret"))
        .await
        .unwrap();
    create(&store, "/x", "1").await;
    // And it is used as soon as it is.
    protect(&etcd.endpoint());
    create(&store, "/y", "1").await;
}

/// A certificate of an authority, and its key, as PEM.
fn issue(issuer: &CertifiedIssuer<'_, KeyPair>, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

#[tokio::test]
async fn uses_mutual_tls() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let ours = authority();
    let (server, server_key) = issue(&ours, "127.0.0.1");
    let (client, client_key) = issue(&ours, "k3");
    let flag = |name: &str, path: &std::path::Path| format!("--{name}={}", path.display());
    let ca = write("ca.pem", &ours.pem());
    let etcd = Etcd::start_with(&Service {
        args: vec![
            flag("cert-file", &write("server.pem", &server)),
            flag("key-file", &write("server.key", &server_key)),
            flag("trusted-ca-file", &ca),
            "--client-cert-auth".to_owned(),
        ],
        tls: true,
        ..Service::default()
    })
    .unwrap();
    let options = |ca: Pem, client: Option<ClientCertificate>| EtcdOptions {
        tls: Some(Tls { ca, client }),
        ..impatient([etcd.endpoint()])
    };
    let identity = ClientCertificate {
        certificate: Pem::Text(client),
        key: Pem::File(write("client.key", &client_key)),
    };

    let store = EtcdStore::open(options(Pem::File(ca.clone()), Some(identity.clone())))
        .await
        .unwrap();
    let written = create(&store, "/x", "1").await;
    assert_eq!(store.get(&key("/x")).await.unwrap().unwrap().revision, written);

    let strangers = Pem::Text(authority().pem());
    assert!(EtcdStore::open(options(strangers, Some(identity))).await.is_err());
    assert!(EtcdStore::open(options(Pem::File(ca), None)).await.is_err());
}
