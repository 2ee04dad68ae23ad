//! Rotation of certificates and keys without interruption.

use std::fs;

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{ConfigMap, ServiceAccount},
};
use kube::{Api, Client, api::PostParams, config::Kubeconfig};

use crate::{
    cluster::{client, client_of, create, read, until},
    program::{TestDataDir, k3, outcome},
};

fn certs(data: &TestDataDir, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = k3(&["certs"]);
    command.args(args).arg("--data-dir").arg(data.path());
    outcome(&mut command)
}

/// Counts the trusted authorities of a kubeconfig.
fn count_authorities(kubeconfig: &Kubeconfig) -> usize {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
    let pem = STANDARD
        .decode(cluster.certificate_authority_data.as_ref().unwrap())
        .unwrap();
    String::from_utf8(pem)
        .unwrap()
        .matches("BEGIN CERTIFICATE")
        .count()
}

async fn token(admin: &Client) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
    let asked = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let made = accounts
        .create_token_request("robot", &PostParams::default(), &asked)
        .await
        .unwrap();
    made.status.unwrap().token.unwrap()
}

/// A client of the same server with a token.
async fn client_with_token(kubeconfig: &Kubeconfig, token: &str) -> Client {
    let mut kubeconfig = kubeconfig.clone();
    let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    user.client_certificate_data = None;
    user.client_key_data = None;
    user.token = Some(token.to_owned().into());
    client_of(kubeconfig).await
}

/// Whether the client is authenticated: an authenticated user without permissions gets 403 instead of 401.
async fn is_known(client: &Client) -> bool {
    match Api::<ConfigMap>::namespaced(client.clone(), "default")
        .get("kept")
        .await
    {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => status.code == 403,
        Err(_) => false,
    }
}

#[tokio::test]
async fn rotates_all_keys_in_two_steps_without_interruption() {
    let data = TestDataDir::new();
    let server = data.start(&[
        "--storage=memory",
        "--controllers=root-ca-certificate-publisher-controller",
    ]);
    let config = || Kubeconfig::read_from(&server.kubeconfig).unwrap();
    let old_config = config();
    assert_eq!(count_authorities(&old_config), 1);
    let old = client(&server.kubeconfig).await;
    create(&old, "kept").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(old.clone(), "default");
    let mut robot = ServiceAccount::default();
    robot.metadata.name = Some("robot".to_owned());
    accounts.create(&PostParams::default(), &robot).await.unwrap();
    let old_token = token(&old).await;
    assert!(is_known(&client_with_token(&old_config, &old_token).await).await);
    let maps: Api<ConfigMap> = Api::namespaced(old.clone(), "kube-system");
    let published = || async {
        let map = maps.get_opt("kube-root-ca.crt").await.unwrap()?;
        Some(map.data?.get("ca.crt")?.matches("BEGIN").count())
    };
    until("the authority is published", || async {
        published().await == Some(1)
    })
    .await;

    let (code, _, errors) = certs(&data, &["rotate"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("--finish"), "{errors}");
    let (code, _, errors) = certs(&data, &["rotate"]);
    assert!(code == Some(1) && errors.contains("in progress"), "{errors}");
    until("both authorities are trusted", || async {
        count_authorities(&config()) == 2
    })
    .await;
    until("both authorities are published", || async {
        published().await == Some(2)
    })
    .await;
    // Old credentials on new connections, and new credentials.
    let both_config = config();
    read(&old, "kept").await;
    read(&client_of(old_config.clone()).await, "kept").await;
    let both = client_of(both_config.clone()).await;
    read(&both, "kept").await;
    assert!(is_known(&client_with_token(&old_config, &old_token).await).await);
    let new_token = token(&both).await;
    assert!(is_known(&client_with_token(&both_config, &new_token).await).await);

    let (code, _, errors) = certs(&data, &["rotate", "--finish"]);
    assert_eq!(code, Some(0), "{errors}");
    until("one authority is trusted", || async {
        count_authorities(&config()) == 1
    })
    .await;
    read(&client_of(both_config.clone()).await, "kept").await;
    read(&client_of(config()).await, "kept").await;
    assert!(is_known(&client_with_token(&both_config, &new_token).await).await);
    until("the old key of tokens is worthless", || async {
        !is_known(&client_with_token(&both_config, &old_token).await).await
    })
    .await;
    let old_again = client_of(old_config).await;
    assert!(
        !is_known(&old_again).await,
        "the old authority is no longer trusted"
    );
}

#[test]
fn shows_certificates_without_keys() {
    let data = TestDataDir::new();
    let (code, _, errors) = certs(&data, &["show"]);
    assert!(code == Some(1) && errors.contains("--data-dir"), "{errors}");
    drop(data.start(&[
        "--storage=memory",
        "--controllers=",
        "--tls-san",
        "k3.example.com",
    ]));
    let (code, output, errors) = certs(&data, &["show"]);
    assert_eq!(code, Some(0), "{errors}");
    for word in [
        "ca",
        "server",
        "admin",
        "service-account",
        "k3.example.com",
        "good",
    ] {
        assert!(output.contains(word), "{word}: {output}");
    }
    let (_, output, _) = certs(&data, &["show", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert!(
        report
            .as_array()
            .unwrap()
            .iter()
            .all(|held| held["flaw"].is_null()),
        "{report}"
    );
    assert!(!output.contains("PRIVATE"));

    // Rotating one part keeps the others.
    let read = |name: &str| fs::read(data.path().join("tls").join(name)).unwrap();
    let server = read("server.crt");
    let admin = read("admin.crt");
    let ca = read("ca.crt");
    assert_eq!(certs(&data, &["rotate", "serving"]).0, Some(0));
    assert!(read("server.crt") != server && read("admin.crt") == admin && read("ca.crt") == ca);
}
