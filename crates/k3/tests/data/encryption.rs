//! Encryption at rest: `--encryption-provider-config` and `k3 secrets`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client, Error,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams, WatchParams},
};
use rustix::process::Signal;

use crate::{
    cluster::{client, create, until},
    program::{TestDataDir, k3, outcome},
};

const PASSWORD: &str = "correct horse battery staple";

/// A configuration that encrypts secrets with secretbox and these keys.
fn configure(data: &TestDataDir, keys: &[&str]) -> PathBuf {
    let secret = |name: &str| {
        let letter = name.as_bytes()[0];
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [letter; 32])
    };
    let keys: Vec<_> = keys
        .iter()
        .map(|name| format!("{{name: {name}, secret: {}}}", secret(name)))
        .collect();
    let file = data.path().join("encryption.yaml");
    let text = format!(
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [secrets]\n  \
         providers: [{{secretbox: {{keys: [{}]}}}}, {{identity: {{}}}}]\n",
        keys.join(", ")
    );
    fs::write(&file, text).unwrap();
    file
}

fn secret(name: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(
            "password".to_owned(),
            ByteString(PASSWORD.as_bytes().to_vec()),
        )])),
        ..Secret::default()
    }
}

fn secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), "default")
}

async fn password(client: &Client, name: &str) -> String {
    let secret = secrets(client).get(name).await.unwrap();
    String::from_utf8(secret.data.unwrap()["password"].0.clone()).unwrap()
}

fn run(verb: &str, kubeconfig: &Path) -> String {
    let mut command = k3(&["secrets", verb, "--kubeconfig"]);
    let (code, output, errors) = outcome(command.arg(kubeconfig));
    assert_eq!(code, Some(0), "{output}{errors}");
    output
}

/// The message of a request that the server cannot answer.
fn internal_error<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Err(Error::Api(status)) if status.code == 500 => status.message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn encrypts_secrets_and_rotates_keys() {
    let data = TestDataDir::new();
    let file = configure(&data, &["one"]);
    let file = file.to_str().unwrap();
    let flags = ["--controllers=", "--encryption-provider-config", file];
    let parameters = PostParams::default();

    // A secret from before encryption, and an encrypted one.
    let server = data.start(&["--controllers="]);
    let admin = client(&server.kubeconfig).await;
    secrets(&admin)
        .create(&parameters, &secret("before"))
        .await
        .unwrap();
    server.end_by(Signal::TERM);
    let server = data.start(&flags);
    let admin = client(&server.kubeconfig).await;
    secrets(&admin).create(&parameters, &secret("a")).await.unwrap();
    assert_eq!(password(&admin, "a").await, PASSWORD);
    assert_eq!(password(&admin, "before").await, PASSWORD);
    let before = secrets(&admin).get("a").await.unwrap();
    server.end_by(Signal::TERM);

    // With a new first key everything is readable, and is rewritten on request.
    configure(&data, &["two", "one"]);
    let server = data.start(&flags);
    let admin = client(&server.kubeconfig).await;
    let status = run("status", &server.kubeconfig);
    assert!(
        status.contains("secretbox:one") && status.contains("identity"),
        "{status}"
    );
    assert!(
        status.contains("2 objects are not stored with the current key"),
        "{status}"
    );
    let done = run("reencrypt", &server.kubeconfig);
    assert!(
        done.contains("rewritten 2 objects") && done.contains("0 failed"),
        "{done}"
    );
    let done = run("reencrypt", &server.kubeconfig);
    assert!(done.contains("rewritten 0 objects"), "{done}");
    let status = run("status", &server.kubeconfig);
    assert!(
        !status.contains("secretbox:one") && !status.contains("identity"),
        "{status}"
    );
    let after = secrets(&admin).get("a").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.metadata.managed_fields, before.metadata.managed_fields);
    assert_eq!(after.data, before.data);
    server.end_by(Signal::TERM);

    // Neither the store nor a snapshot contains the plain value.
    let snapshot = data.path().join("a.k3");
    let mut save = k3(&["snapshot", "save", "--data-dir"]);
    let (code, _, errors) = outcome(save.arg(data.path()).arg(&snapshot));
    assert_eq!(code, Some(0), "{errors}");
    let bytes = fs::read(&snapshot).unwrap();
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, PASSWORD);
    let contains = |part: &str| bytes.windows(part.len()).any(|window| window == part.as_bytes());
    assert!(contains("k8s:enc:secretbox:v1:two:"));
    assert!(!contains(PASSWORD) && !contains(&encoded));

    // The old key is no longer needed.
    configure(&data, &["two"]);
    let server = data.start(&flags);
    let admin = client(&server.kubeconfig).await;
    assert_eq!(password(&admin, "a").await, PASSWORD);
    server.end_by(Signal::TERM);
    assert!(!data.log().contains(&encoded), "{}", data.log());
}

#[tokio::test]
async fn an_undecryptable_object_fails_alone() {
    let data = TestDataDir::new();
    let file = configure(&data, &["one"]);
    let file = file.to_str().unwrap();
    let flags = ["--controllers=", "--encryption-provider-config", file];
    let server = data.start(&flags);
    let admin = client(&server.kubeconfig).await;
    let parameters = PostParams::default();
    secrets(&admin)
        .create(&parameters, &secret("lost"))
        .await
        .unwrap();
    server.end_by(Signal::TERM);

    let _ = configure(&data, &["three"]);
    for flags in [&flags[..], &["--controllers="]] {
        let server = data.start(flags);
        let admin = client(&server.kubeconfig).await;
        create(&admin, &format!("fine-{}", flags.len())).await;
        let maps = Api::<ConfigMap>::all(admin.clone());
        assert!(!maps.list(&ListParams::default()).await.unwrap().items.is_empty());
        let all = secrets(&admin);
        let messages = [
            internal_error(all.get("lost").await),
            internal_error(all.list(&ListParams::default()).await),
            internal_error(all.delete("lost", &DeleteParams::default()).await),
            internal_error(all.watch(&WatchParams::default(), "0").await.map(drop)),
        ];
        for message in messages {
            for part in ["secrets", "\"lost\"", "\"default\"", "secretbox", "one"] {
                assert!(message.contains(part), "{part} is not in: {message}");
            }
        }
        // Other namespaces and new objects are not affected.
        let elsewhere = Api::<Secret>::namespaced(admin.clone(), "kube-system");
        let public = Api::<Secret>::namespaced(admin.clone(), "kube-public");
        assert!(public.list(&ListParams::default()).await.is_ok());
        assert!(
            elsewhere
                .create(&parameters, &secret(&format!("new-{}", flags.len())))
                .await
                .is_ok()
        );
        server.end_by(Signal::TERM);
    }

    // With the key it is readable again, without a restart.
    configure(&data, &["three"]);
    let reload = "--encryption-provider-config-automatic-reload";
    let server = data.start(&[&flags[..], &[reload]].concat());
    let admin = client(&server.kubeconfig).await;
    internal_error(secrets(&admin).get("lost").await);
    configure(&data, &["three", "one"]);
    until("the key is used", || async {
        secrets(&admin).get("lost").await.is_ok()
    })
    .await;
    assert_eq!(password(&admin, "lost").await, PASSWORD);
    let listed = secrets(&admin).list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1);
}

#[tokio::test]
async fn a_running_server_reloads_the_configuration() {
    let data = TestDataDir::new();
    let file = configure(&data, &["one"]);
    let server = data.start(&[
        "--storage=memory",
        "--controllers=",
        "--encryption-provider-config-automatic-reload",
        "--encryption-provider-config",
        file.to_str().unwrap(),
    ]);
    let admin = client(&server.kubeconfig).await;
    let parameters = PostParams::default();
    secrets(&admin).create(&parameters, &secret("a")).await.unwrap();

    fs::write(&file, "kind: EncryptionConfiguration\n").unwrap();
    until("the invalid file is reported", || async {
        data.log().contains("the previous one stays in use")
    })
    .await;
    secrets(&admin).create(&parameters, &secret("b")).await.unwrap();

    configure(&data, &["two", "one"]);
    until("the new key is used", || async {
        run("status", &server.kubeconfig).contains("secretbox:two")
    })
    .await;
    let done = run("reencrypt", &server.kubeconfig);
    assert!(done.contains("rewritten 2 objects"), "{done}");
    assert_eq!(password(&admin, "a").await, PASSWORD);
}

#[test]
fn an_invalid_configuration_is_a_usage_error_that_names_the_field() {
    let data = TestDataDir::new();
    let file = configure(&data, &["one"]);
    let text = fs::read_to_string(&file)
        .unwrap()
        .replace("[secrets]", "[Secrets]");
    fs::write(&file, text).unwrap();
    let mut command = data.command(&["--encryption-provider-config", file.to_str().unwrap()]);
    let (code, _, errors) = outcome(&mut command);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("resources[0].resources[0]"), "{errors}");
    let key = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [b'o'; 32]);
    assert!(!errors.contains(&key), "{errors}");
}
