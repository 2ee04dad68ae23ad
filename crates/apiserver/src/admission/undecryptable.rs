//! Rejects admission while a configuration object that decides about the request cannot be decrypted.

use k3_api::status::Status;

use super::{AdmissionAttributes, Operation, resource};
use crate::cache::{CachedObject, WatchCaches};
use k3_storage::Revision;

/// What a cluster configures to change or refuse requests.
const CONFIGURATION: [&str; 6] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// What is looked at in the namespace of an object that is written.
const IN_NAMESPACE: [&str; 2] = ["limitranges", "resourcequotas"];

/// Cluster-wide objects that plugins read about an object that is written: of which resource it is, and of which they are.
const CLASSES: [(&str, &str, &str); 6] = [
    ("pods", "scheduling.k8s.io", "priorityclasses"),
    ("pods", "node.k8s.io", "runtimeclasses"),
    ("persistentvolumeclaims", "storage.k8s.io", "storageclasses"),
    ("ingresses", "networking.k8s.io", "ingressclasses"),
    ("resourceclaims", "resource.k8s.io", "deviceclasses"),
    ("pods", "resource.k8s.io", "deviceclasses"),
];

/// Refuses a request if something that decides about it is not decrypted: its absence must not admit anything. The caches read
/// such objects again by themselves.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/ready.go check; upstream's cacher is not ready while an object cannot be decrypted
pub(super) fn check_decrypted(
    attributes: &AdmissionAttributes<'_>,
    caches: &WatchCaches,
) -> Result<(), Status> {
    if !caches.may_have_undecrypted() {
        return Ok(());
    }
    if !attributes.is_exempt() {
        for plural in CONFIGURATION {
            check_resource_decrypted("admissionregistration.k8s.io", plural, "", caches)?;
        }
    }
    let namespace = attributes.namespace;
    if !namespace.is_empty() {
        let namespaces = resource("", "namespaces", caches);
        let key = namespaces.key("", namespace).ok();
        if let Some(object) = key.and_then(|key| namespaces.cache.get(&key))
            && object.undecrypted().is_some()
        {
            return Err(rejection("namespaces", &object));
        }
    }
    if !matches!(attributes.operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    if !namespace.is_empty() {
        for plural in IN_NAMESPACE {
            check_resource_decrypted("", plural, namespace, caches)?;
        }
    }
    let written = &*attributes.resource.kind.plural;
    for (_, group, plural) in CLASSES.iter().filter(|(of, ..)| *of == written) {
        check_resource_decrypted(group, plural, "", caches)?;
    }
    Ok(())
}

/// Refuses if any object of a resource, or of it in a namespace, is not decrypted.
fn check_resource_decrypted(
    group: &str,
    plural: &str,
    namespace: &str,
    caches: &WatchCaches,
) -> Result<(), Status> {
    let resource = resource(group, plural, caches);
    let snapshot = resource.cache.snapshot(Revision::ZERO);
    let prefix = resource.under(namespace);
    let mut objects = snapshot.under(&prefix, None);
    match objects.find(|object| object.undecrypted().is_some()) {
        Some(object) => Err(rejection(plural, object)),
        None => Ok(()),
    }
}

/// The answer. The reason is for those who may read the object, and in the log.
fn rejection(plural: &str, object: &CachedObject) -> Status {
    Status::service_unavailable(format!(
        "admission needs {plural} {:?}, which the server cannot decrypt; try again when its encryption configuration is \
         repaired",
        object.name()
    ))
}

#[cfg(test)]
mod tests {
    use k3_storage::{Key, Revision, Write};
    use serde_json::{Value, json};

    use super::super::testing::{TestCluster, TestRequest};
    use crate::cache::WatchCaches;

    const ENCRYPTED: &[u8] = b"k8s:enc:secretbox:v1:lost:bytes";

    fn namespace(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}})
    }

    fn map(namespace: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}})
    }

    async fn put_encrypted(caches: &WatchCaches, key: &str) -> Revision {
        let write = Write::create(Key::try_new(key).unwrap(), ENCRYPTED);
        let revision = caches.store().writable().commit(write).await.unwrap();
        caches.wait_until_applied(revision).await;
        revision
    }

    #[tokio::test]
    async fn undecryptable_configuration_rejects_writes_until_deleted() {
        for plural in super::CONFIGURATION {
            let world = TestCluster::new().await;
            let admission = world.admission();
            world.put(namespace("n")).await;
            assert!(
                world
                    .pass(&admission, TestRequest::create(map("n")))
                    .await
                    .is_ok()
            );
            let key = format!("/registry/admissionregistration.k8s.io/{plural}/guard");
            let revision = put_encrypted(world.caches(), &key).await;
            let refused = world
                .pass(&admission, TestRequest::create(map("n")))
                .await
                .unwrap_err();
            assert_eq!(refused.code, 503, "{plural}");
            assert!(refused.message.contains(plural), "{}", refused.message);
            assert!(refused.message.contains("\"guard\""), "{}", refused.message);
            let delete = Write::delete(Key::try_new(key).unwrap(), revision);
            let revision = world.caches().store().writable().commit(delete).await.unwrap();
            world.caches().wait_until_applied(revision).await;
            assert!(
                world
                    .pass(&admission, TestRequest::create(map("n")))
                    .await
                    .is_ok()
            );
        }
    }

    #[tokio::test]
    async fn undecryptable_namespace_or_limits_reject_writes_in_namespace_only() {
        let world = TestCluster::new().await;
        let admission = world.admission();
        world.put(namespace("fine")).await;
        world.put(namespace("limited")).await;
        put_encrypted(world.caches(), "/registry/core/namespaces/dark").await;
        put_encrypted(world.caches(), "/registry/core/limitranges/limited/most").await;
        for (namespace, name) in [("dark", "\"dark\""), ("limited", "\"most\"")] {
            let refused = world.pass(&admission, TestRequest::create(map(namespace))).await;
            let refused = refused.unwrap_err();
            assert_eq!(refused.code, 503);
            assert!(refused.message.contains(name), "{}", refused.message);
        }
        assert!(
            world
                .pass(&admission, TestRequest::create(map("fine")))
                .await
                .is_ok()
        );
    }
}
