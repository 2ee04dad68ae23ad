//! `ServiceAccount`: sets the service account of a pod, checks that it exists, and mounts its token.
//!
//! Pods that only mirror what a node runs by itself are left as they are, and can have neither account nor secrets.

mod secrets;
mod token_volume;

use k3_api::{
    status::{GroupResource, Status},
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use super::{AdmissionAttributes, AdmissionPlugin, Operation, object};
use crate::cache::WatchCaches;

/// The account of pods that name none.
const DEFAULT: &str = "default";
/// Marks a pod that mirrors one of a node.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Marks an account whose pods may use its own secrets alone.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

pub(super) struct ServiceAccount;

// upstream: plugin/pkg/admission/serviceaccount/admission.go Admit, Validate
impl AdmissionPlugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        if !attributes.creates("", "pods") {
            return Ok(());
        }
        if is_mirror(attributes.object) {
            return check_mirror(attributes);
        }
        let spec = attributes.object.ensure_object("spec");
        if spec.text("serviceAccountName").is_empty() {
            spec.set("serviceAccountName", DEFAULT);
            spec.set("serviceAccount", DEFAULT);
        }
        let account = account(attributes, caches)?;
        let spec = attributes.object.ensure_object("spec");
        let automount = |value: &Value| value.at("automountServiceAccountToken").as_bool();
        if automount(spec).or_else(|| automount(&account)).unwrap_or(true) {
            token_volume::mount(spec);
        }
        let pull = account.items("imagePullSecrets");
        if spec.items("imagePullSecrets").is_empty() && !pull.is_empty() {
            let names = pull.iter().map(|secret| json!({"name": secret.text("name")}));
            spec.set("imagePullSecrets", names.collect::<Vec<_>>());
        }
        check_secrets(attributes, &account)
    }

    fn awaits(&self, attributes: &AdmissionAttributes<'_>, caches: &WatchCaches) -> bool {
        // Each namespace gets its default account from a controller.
        attributes.creates("", "pods")
            && attributes.object.at("spec").text("serviceAccountName") == DEFAULT
            && object("", "serviceaccounts", attributes.namespace, DEFAULT, caches).is_none()
    }

    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        if !attributes.is_of("", "pods") {
            return Ok(());
        }
        match (attributes.operation, attributes.subresource) {
            (Operation::Create, "") if is_mirror(attributes.object) => check_mirror(attributes),
            (Operation::Create, "") => {
                let account = account(attributes, caches)?;
                check_secrets(attributes, &account)
            }
            (Operation::Update, "ephemeralcontainers") => {
                let account = account(attributes, caches)?;
                if !is_strict(&account) {
                    return Ok(());
                }
                // Here the refusal is an error like any other: clients know it so.
                secrets::check_ephemeral(attributes.object.at("spec"), &account)
                    .map_err(|error| Status::unknown(error.to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// The account of a pod.
fn account(attributes: &AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<Value, Status> {
    let namespace = attributes.namespace;
    let pod = &attributes.object;
    let name = pod.at("spec").text("serviceAccountName");
    if name.is_empty() {
        let pod = pod.at("metadata").text("name");
        let why = format!("no service account specified for pod {namespace}/{pod}");
        return Err(attributes.forbidden(why));
    }
    object("", "serviceaccounts", namespace, name, caches).ok_or_else(|| {
        let missing = Status::not_found(GroupResource::new("", "serviceaccount"), name);
        attributes.forbidden(format!(
            "error looking up service account {namespace}/{name}: {missing}"
        ))
    })
}

fn is_mirror(pod: &Value) -> bool {
    pod.at("metadata").entries("annotations").contains_key(MIRROR)
}

/// Whether pods may use the secrets of an account alone.
fn is_strict(account: &Value) -> bool {
    let value = account.at("metadata").at("annotations").text(ENFORCE);
    ["1", "t", "T", "true", "TRUE", "True"].contains(&value)
}

fn check_secrets(attributes: &AdmissionAttributes<'_>, account: &Value) -> Result<(), Status> {
    if !is_strict(account) {
        return Ok(());
    }
    secrets::check(attributes.object.at("spec"), account).map_err(|why| attributes.forbidden(why))
}

fn check_mirror(attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
    let spec = attributes.object.at("spec");
    let why = if !spec.text("serviceAccountName").is_empty() {
        "a mirror pod may not reference service accounts"
    } else if secrets::any(spec) {
        "a mirror pod may not reference secrets"
    } else if token_volume::is_projected(spec) {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(());
    };
    Err(attributes.forbidden(why))
}

#[cfg(test)]
mod tests {
    use super::{super::testing::TestCluster, *};

    fn account(name: &str, with: &Value) -> Value {
        let mut account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {}});
        for (field, value) in with.as_object().unwrap() {
            account.set(field, value.clone());
        }
        account.ensure_object("metadata").set("name", name);
        account.ensure_object("metadata").set("namespace", "n");
        account
    }

    fn pod(spec: &Value) -> Value {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": spec});
        pod.ensure_object("spec")
            .set_default("containers", json!([{"name": "c"}]));
        pod
    }

    fn mirror(spec: &Value) -> Value {
        let mut pod = pod(spec);
        pod.ensure_object("metadata")
            .ensure_object("annotations")
            .set(MIRROR, "x");
        pod
    }

    fn strict() -> Value {
        json!({
            "metadata": {"annotations": {ENFORCE: "true"}},
            "secrets": [{"name": "own"}],
            "imagePullSecrets": [{"name": "pull"}],
        })
    }

    #[tokio::test]
    async fn requires_existing_service_account() {
        let world = TestCluster::new().await;
        assert_eq!(
            world.admit(&ServiceAccount, pod(&json!({}))).unwrap_err(),
            r#"pods "p" is forbidden: error looking up service account n/default: serviceaccount "default" not found"#
        );
        world.put(account(DEFAULT, &json!({}))).await;
        let pod = world.admit(&ServiceAccount, pod(&json!({}))).unwrap();
        assert_eq!(pod.at("spec").text("serviceAccountName"), DEFAULT);
        assert_eq!(pod.at("spec").text("serviceAccount"), DEFAULT);
    }

    #[tokio::test]
    async fn error_uses_generate_name() {
        let world = TestCluster::new().await;
        let mut pod = pod(&json!({"serviceAccountName": "x"}));
        pod.set("metadata", json!({"generateName": "web-", "namespace": "n"}));
        assert_eq!(
            world.admit(&ServiceAccount, pod).unwrap_err(),
            r#"pods "web-" is forbidden: error looking up service account n/x: serviceaccount "x" not found"#
        );
    }

    #[tokio::test]
    async fn pod_automount_overrides_account() {
        let world = TestCluster::new().await;
        let said = "automountServiceAccountToken";
        world.put(account("yes", &json!({said: true}))).await;
        world.put(account("no", &json!({said: false}))).await;
        world.put(account("silent", &json!({}))).await;
        for (name, pod_automount, mounts) in [
            ("yes", Value::Null, true),
            ("no", Value::Null, false),
            ("silent", Value::Null, true),
            ("yes", json!(false), false),
            ("no", json!(true), true),
        ] {
            let spec = json!({"serviceAccountName": name, said: pod_automount});
            let pod = world.admit(&ServiceAccount, pod(&spec)).unwrap();
            assert_eq!(
                !pod.at("spec").items("volumes").is_empty(),
                mounts,
                "{name} {pod_automount}"
            );
        }
    }

    #[tokio::test]
    async fn copies_image_pull_secrets() {
        let world = TestCluster::new().await;
        world
            .put(account(DEFAULT, &json!({"imagePullSecrets": [{"name": "a"}]})))
            .await;
        let given = world.admit(&ServiceAccount, pod(&json!({}))).unwrap();
        assert_eq!(given.at("spec").at("imagePullSecrets"), &json!([{"name": "a"}]));
        let own = json!([{"name": "b"}]);
        let kept = world
            .admit(&ServiceAccount, pod(&json!({"imagePullSecrets": own})))
            .unwrap();
        assert_eq!(kept.at("spec").at("imagePullSecrets"), &own);
    }

    #[tokio::test]
    async fn enforces_mountable_secrets() {
        let world = TestCluster::new().await;
        world.put(account(DEFAULT, &strict())).await;
        let volume = |name: &str| json!({"volumes": [{"name": "v", "secret": {"secretName": name}}]});
        assert!(world.admit(&ServiceAccount, pod(&volume("own"))).is_ok());
        assert_eq!(
            world.admit(&ServiceAccount, pod(&volume("other"))).unwrap_err(),
            "pods \"p\" is forbidden: volume with secret.secretName=\"other\" is not allowed because service account default \
             does not reference that secret"
        );
    }

    #[tokio::test]
    async fn enforces_mountable_secrets_for_ephemeral_containers() {
        let world = TestCluster::new().await;
        world.put(account(DEFAULT, &strict())).await;
        let new = pod(&json!({
            "serviceAccountName": DEFAULT,
            "ephemeralContainers": [{"name": "e", "envFrom": [{"secretRef": {"name": "other"}}]}],
        }));
        let refused = world.update_part(&ServiceAccount, "ephemeralcontainers", new.clone(), &new);
        assert_eq!(
            refused.unwrap_err(),
            "ephemeral container e with envFrom referencing secret.secretName=\"other\" is not allowed because service account \
             default does not reference that secret"
        );
    }

    #[tokio::test]
    async fn mirror_pod_is_unchanged() {
        let world = TestCluster::new().await;
        let plain = mirror(&json!({}));
        assert_eq!(world.admit(&ServiceAccount, plain.clone()).unwrap(), plain);
        for (spec, why) in [
            (json!({"serviceAccountName": "x"}), "reference service accounts"),
            (json!({"imagePullSecrets": [{"name": "x"}]}), "reference secrets"),
            (
                json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
                "use ServiceAccountToken volume projections",
            ),
        ] {
            assert_eq!(
                world.admit(&ServiceAccount, mirror(&spec)).unwrap_err(),
                format!("pods \"p\" is forbidden: a mirror pod may not {why}")
            );
        }
    }
}
