//! What must be as it was after an upgrade.

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        authentication::v1::SelfSubjectReview,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Pod, Secret, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, Resource,
    api::{DynamicObject, PostParams},
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
};
use serde::de::DeserializeOwned;

use crate::fixture::OldClients;

/// The names under which servers of this version and of older ones elect who leads. They never change without a rule for
/// the time in which both run: see docs/decisions/006-upgrades.md.
pub(crate) const OLD_LEASES: [(&str, &str); 1] = [("app", "elected")];

/// Checks everything that a cluster of commit 6ea0c3a had, at the server that a kubeconfig of this version names.
pub(crate) async fn check(old_clients: &OldClients, current: Kubeconfig) {
    let server = current.clusters[0].cluster.clone().unwrap().server.unwrap();
    let at_server = |mut kubeconfig: Kubeconfig| {
        kubeconfig.clusters[0].cluster.as_mut().unwrap().server = Some(server.clone());
        kubeconfig
    };
    let old = at_server(old_clients.kubeconfig());
    assert_eq!(
        authority(&old),
        authority(&current),
        "the authority that clients trust is another"
    );
    // What clients hold is good: a certificate, the token of a service account, a bootstrap token.
    let (certificate, key) = old_clients.certificate();
    let mut with_certificate = old.clone();
    with_certificate.auth_infos[0].auth_info = Some(AuthInfo {
        client_certificate_data: Some(certificate),
        client_key_data: Some(key.into()),
        ..AuthInfo::default()
    });
    let admin = client(with_certificate).await;
    assert_eq!(user(&admin).await.as_deref(), Some("old-administrator"));
    let robot = client(with_token(&old, old_clients.token())).await;
    let account = "system:serviceaccount:app:robot";
    assert_eq!(user(&robot).await.as_deref(), Some(account));
    let seen: Api<Pod> = Api::namespaced(robot, "app");
    seen.list(&kube::api::ListParams::default()).await.unwrap();
    let joining = client(with_token(&old, "abcdef.0123456789abcdef".to_owned())).await;
    assert_eq!(user(&joining).await.as_deref(), Some("system:bootstrap:abcdef"));
    // The administrator's certificate is good for a year from when the fixture was made, and no longer.
    let administrator = user(&client(old.clone()).await).await;
    assert!(
        administrator.is_some() || is_over(&old),
        "the administrator's certificate is refused"
    );

    check_objects(&admin, old_clients).await;
}

async fn check_objects(admin: &Client, old_clients: &OldClients) {
    let mut pods = Vec::new();
    for (name, uid, node) in old_clients.pods() {
        let pod: Pod = get(admin, "app", &name).await;
        assert_eq!(pod.metadata.uid.as_deref(), Some(&*uid), "{name}");
        assert_eq!(pod.spec.unwrap().node_name.unwrap_or_default(), node, "{name}");
        pods.push(name);
    }
    assert_eq!(pods.len(), 3, "{pods:?}");
    let deployment: Deployment = get(admin, "app", "api").await;
    assert_eq!(deployment.spec.replicas, Some(2));
    let service: Service = get(admin, "app", "api").await;
    assert_eq!(service.spec.unwrap().cluster_ip.as_deref(), Some("10.96.77.77"));
    let settings: ConfigMap = get(admin, "app", "settings").await;
    assert_eq!(settings.data.unwrap()["color"], "green");
    let secret: Secret = get(admin, "app", "plain").await;
    assert_eq!(secret.data.unwrap()["password"].0, b"kept-by-6ea0c3a");
    for (namespace, name) in OLD_LEASES {
        let lease: Lease = get(admin, namespace, name).await;
        let spec = lease.spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("robot-1"));
        assert_eq!(spec.lease_transitions, Some(3));
    }
    let leases: Api<Lease> = Api::namespaced(admin.clone(), "kube-node-lease");
    let node_leases = leases.list(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(node_leases.items.len(), 1, "the lease of the simulated node");
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    definitions.get("widgets.example.com").await.unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::namespaced_with(admin.clone(), "app", &kind);
    assert_eq!(widgets.get("one").await.unwrap().data["spec"]["size"], 7);
    // And it is a cluster that goes on.
    let mut settings: ConfigMap = get(admin, "app", "settings").await;
    settings
        .data
        .as_mut()
        .unwrap()
        .insert("color".to_owned(), "blue".to_owned());
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "app");
    let replaced = maps
        .replace("settings", &PostParams::default(), &settings)
        .await
        .unwrap();
    assert_eq!(replaced.data.unwrap()["color"], "blue");
}

async fn get<K>(client: &Client, namespace: &str, name: &str) -> K
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    Api::namespaced(client.clone(), namespace)
        .get(name)
        .await
        .unwrap()
}

/// Who the server takes a client for; nothing if it is refused.
async fn user(client: &Client) -> Option<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .ok()?;
    review.status?.user_info?.username
}

fn authority(kubeconfig: &Kubeconfig) -> Option<String> {
    kubeconfig.clusters[0]
        .cluster
        .as_ref()?
        .certificate_authority_data
        .clone()
}

/// Whether the certificate of a kubeconfig is no longer good, by OpenSSL.
fn is_over(kubeconfig: &Kubeconfig) -> bool {
    use std::io::Write as _;
    let data = kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
    let encoded = data.client_certificate_data.as_ref().unwrap();
    let pem = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).unwrap();
    let mut openssl = std::process::Command::new("openssl")
        .args(["x509", "-checkend", "0", "-noout"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    openssl.stdin.take().unwrap().write_all(&pem).unwrap();
    !openssl.wait().unwrap().success()
}

fn with_token(kubeconfig: &Kubeconfig, token: String) -> Kubeconfig {
    let mut kubeconfig = kubeconfig.clone();
    kubeconfig.auth_infos[0].auth_info = Some(AuthInfo {
        token: Some(token.into()),
        ..AuthInfo::default()
    });
    kubeconfig
}

async fn client(kubeconfig: Kubeconfig) -> Client {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}
