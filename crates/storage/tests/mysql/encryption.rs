//! Encrypted connections.

use k3_storage::{
    OpenError, Store, StoreError,
    mysql::{MysqlOptions, MysqlStore, TlsMode},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

use crate::server::{TestServer, create};

/// A server that accepts only TLS, and the authority that vouches for it.
fn encrypted() -> (TestServer, TempDir) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()])
        .unwrap()
        .signed_by(&key, &authority)
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = |name| directory.path().join(name);
    std::fs::write(path("ca.pem"), authority.pem()).unwrap();
    std::fs::write(path("server.pem"), certificate.pem()).unwrap();
    std::fs::write(path("server.key"), key.serialize_pem()).unwrap();
    let server = TestServer::start_with(&[
        &format!("--ssl-ca={}", path("ca.pem").display()),
        &format!("--ssl-cert={}", path("server.pem").display()),
        &format!("--ssl-key={}", path("server.key").display()),
        "--require-secure-transport=1",
    ]);
    (server, directory)
}

fn with_tls(server: &TestServer, tls: TlsMode) -> MysqlOptions {
    MysqlOptions {
        tls,
        ..server.options.clone()
    }
}

#[tokio::test]
async fn trusts_a_server_signed_by_the_authority() {
    let (server, directory) = encrypted();
    let ca_file = Some(directory.path().join("ca.pem"));
    for tls in [
        TlsMode::Preferred,
        TlsMode::Required,
        TlsMode::Verified { ca_file },
    ] {
        let name = format!("/{}", format!("{tls:?}").len());
        let store = MysqlStore::open(with_tls(&server, tls)).await.unwrap();
        create(&store, &name, "x").await;
        store.close().await;
    }
    // Signed by no public authority; and in the clear the server does not talk.
    for tls in [TlsMode::Verified { ca_file: None }, TlsMode::Off] {
        let refused = MysqlStore::open(with_tls(&server, tls.clone())).await.map(drop);
        assert!(
            matches!(refused, Err(OpenError::Store(StoreError::Unavailable { .. }))),
            "{tls:?}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn rejects_a_server_without_required_tls() {
    let server = TestServer::start();
    for tls in [TlsMode::Required, TlsMode::Verified { ca_file: None }] {
        let refused = MysqlStore::open(with_tls(&server, tls.clone())).await.map(drop);
        assert!(
            matches!(refused, Err(OpenError::Store(StoreError::Unavailable { .. }))),
            "{tls:?}: {refused:?}"
        );
    }
    MysqlStore::open(with_tls(&server, TlsMode::Preferred))
        .await
        .unwrap();
}
