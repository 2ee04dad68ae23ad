//! What a suite of an operator does in such an environment.

use std::time::Duration;

use k8s_openapi::{
    api::{
        authentication::v1::{SelfSubjectReview, TokenRequest, TokenRequestSpec},
        core::v1::{ConfigMap, Namespace, Pod, ServiceAccount},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    DEFINITION,
    suite::{EnvtestAssets, EnvtestSuite, call},
};

const PATIENCE: Duration = Duration::from_mins(1);

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    api.create(&PostParams::default(), &read(object)).await.unwrap()
}

/// A token of a service account that is made for it.
async fn token(client: &Client) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    create(&accounts, json!({"metadata": {"name": "robot"}})).await;
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let made = accounts
        .create_token_request("robot", &PostParams::default(), &request)
        .await
        .unwrap();
    made.status.unwrap().token.unwrap()
}

async fn user_name(client: Client) -> Option<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    review.unwrap().status?.user_info?.username
}

#[tokio::test]
async fn behaves_like_upstream_and_survives_a_restart() {
    let mut env = EnvtestSuite::start(&[]).await;
    let client = env.user("admin", &["system:masters"]).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    assert!(namespaces.get_opt("default").await.unwrap().is_some());

    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("envtest");
    let definition = serde_saphyr::from_str::<Value>(DEFINITION).unwrap();
    definitions
        .patch("widgets.example.com", &params, &Patch::Apply(definition))
        .await
        .unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
    let create_widget = async {
        while widgets
            .create(&PostParams::default(), &DynamicObject::new("w", &kind))
            .await
            .is_err()
        {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, create_widget)
        .await
        .expect("the kind is served");
    let patch = Patch::Merge(json!({"spec": {"size": 3}}));
    widgets.patch("w", &PatchParams::default(), &patch).await.unwrap();

    // Without controllers there are no service accounts, and pods need none.
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    create(&pods, pod).await;
    // Operations of controllers, such as namespace deletion, do not finish.
    create(&namespaces, json!({"metadata": {"name": "left"}})).await;
    namespaces.delete("left", &DeleteParams::default()).await.unwrap();
    let left = namespaces.get("left").await.unwrap();
    assert_eq!(left.status.unwrap().phase.as_deref(), Some("Terminating"));

    // Others than the administrator may do what roles let them.
    let unprivileged = env.user("alice", &[]).await;
    let refused = Api::<Pod>::namespaced(unprivileged, "default")
        .get("p")
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );
    let token = token(&client).await;
    let robot = Some("system:serviceaccount:default:robot".to_owned());
    assert_eq!(user_name(env.bearer(&token).await).await, robot);

    env.stop_apiserver().await;
    env.start_apiserver().await;
    let client = env.user("admin", &["system:masters"]).await;
    let widgets: Api<DynamicObject> = Api::namespaced_with(client, "default", &kind);
    assert_eq!(widgets.get("w").await.unwrap().data["spec"]["size"], 3);
    // The key is that of the files, not one that was made up.
    assert_eq!(user_name(env.bearer(&token).await).await, robot);
    widgets.delete("w", &DeleteParams::default()).await.unwrap();
    assert_eq!(env.log(), "");
    env.stop().await;
}

#[tokio::test]
async fn controllers_delete_namespaces_and_dependents() {
    let env = EnvtestSuite::start(&[("K3_ENVTEST_CONTROLLERS", "1")]).await;
    let client = env.user("admin", &["system:masters"]).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    create(&namespaces, json!({"metadata": {"name": "shop"}})).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let owner = create(&maps, json!({"metadata": {"name": "owner"}})).await;
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid.unwrap(),
    });
    create(
        &maps,
        json!({"metadata": {"name": "owned", "ownerReferences": [reference]}}),
    )
    .await;
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    maps.delete("owner", &DeleteParams::default()).await.unwrap();
    let stopped = async {
        while namespaces.get_opt("shop").await.unwrap().is_some()
            || maps.get_opt("owned").await.unwrap().is_some()
        {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, stopped).await.expect("both go");
    env.stop().await;
}

#[tokio::test]
async fn uses_a_real_etcd() {
    let mut env = EnvtestSuite::start_with_etcd("etcd".into()).await;
    let maps = |client| Api::<ConfigMap>::namespaced(client, "default");
    let client = env.user("admin", &["system:masters"]).await;
    create(&maps(client), json!({"metadata": {"name": "kept"}})).await;
    env.stop_apiserver().await;
    env.start_apiserver().await;
    let client = env.user("admin", &["system:masters"]).await;
    assert!(maps(client).get_opt("kept").await.unwrap().is_some());
    env.stop().await;
}

#[test]
fn warns_about_unsupported_flags_and_rejects_invalid_ones() {
    let assets = EnvtestAssets::make();
    let program = assets.program("kube-apiserver");
    // There is no etcd: it gets as far as its flags are good.
    let (code, _, errors) = call(
        &program,
        &[
            "--feature-gates=A=true",
            "--etcd-servers=http://127.0.0.1:1",
            "--client-ca-file=/no/such",
            "--secure-port=0",
        ],
    );
    assert_eq!(code, Some(1), "{errors}");
    assert!(
        errors.contains("ignoring unsupported flag --feature-gates"),
        "{errors}"
    );
    for args in [
        &["serve"][..],
        &["--etcd-servers=http://127.0.0.1:1", "--secure-port=x"],
        &["--v=4"],
    ] {
        let (code, _, errors) = call(&program, args);
        assert_eq!(code, Some(2), "{args:?}: {errors}");
    }
}
