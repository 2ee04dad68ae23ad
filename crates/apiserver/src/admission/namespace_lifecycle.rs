//! `NamespaceLifecycle`: rejects creation in missing or terminating namespaces, and deletion of the system namespaces.

use k3_api::{
    status::{Status, StatusCause},
    strategy::Tree,
};

use super::{AdmissionAttributes, AdmissionPlugin, Operation, resource};
use crate::cache::WatchCaches;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) struct NamespaceLifecycle;

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go Admit, isAccessReview
impl AdmissionPlugin for NamespaceLifecycle {
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        let is_namespace = attributes.is_of("", "namespaces");
        match attributes.operation {
            Operation::Delete if is_namespace => {
                let name = attributes.object.at("metadata").text("name");
                if IMMORTAL.contains(&name) {
                    return Err(attributes.forbidden("this namespace may not be deleted"));
                }
                Ok(())
            }
            // Local access reviews are not checked: they must not reveal whether the namespace exists.
            Operation::Create
                if !is_namespace
                    && !attributes.namespace.is_empty()
                    && !attributes.is_of("authorization.k8s.io", "localsubjectaccessreviews") =>
            {
                check(attributes, caches)
            }
            _ => Ok(()),
        }
    }
}

/// Rejects creation in a namespace that is missing or terminating.
fn check(attributes: &AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
    let namespaces = resource("", "namespaces", caches);
    let name = attributes.namespace;
    let Some(namespace) = namespaces.cache.get(&namespaces.key("", name)?) else {
        return Err(namespaces.not_found(name));
    };
    // Read once for each state of the namespace: every object that is made asks for it.
    let phase = namespaces
        .cache
        .field_position("status.phase")
        .expect("namespaces are selected by phase");
    if namespaces.cache.field(&namespace, phase) != "Terminating" {
        return Ok(());
    }
    let mut status = attributes.forbidden(format!(
        "unable to create new content in namespace {name} because it is being terminated"
    ));
    status.details.get_or_insert_default().causes.push(StatusCause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {name} is being terminated"),
        field: "metadata.namespace".into(),
    });
    Err(status)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::testing::TestCluster, *};

    fn namespace(name: &str, phase: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": phase}})
    }

    fn secret(namespace: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}})
    }

    #[tokio::test]
    async fn rejects_create_in_missing_or_terminating_namespace() {
        let world = TestCluster::new().await;
        world.put(namespace("here", "Active")).await;
        world.put(namespace("leaving", "Terminating")).await;
        assert!(world.admit(&NamespaceLifecycle, secret("here")).is_ok());
        assert_eq!(
            world.admit(&NamespaceLifecycle, secret("absent")).unwrap_err(),
            r#"namespaces "absent" not found"#
        );
        assert_eq!(
            world.admit(&NamespaceLifecycle, secret("leaving")).unwrap_err(),
            r#"secrets "s" is forbidden: unable to create new content in namespace leaving because it is being terminated"#
        );
    }

    #[tokio::test]
    async fn allows_update_and_delete_in_terminating_namespace() {
        let world = TestCluster::new().await;
        world.put(namespace("leaving", "Terminating")).await;
        let secret = secret("leaving");
        assert!(world.update(&NamespaceLifecycle, secret.clone(), &secret).is_ok());
        assert!(world.delete(&NamespaceLifecycle, secret).is_ok());
    }

    #[tokio::test]
    async fn rejects_deletion_of_system_namespaces() {
        let world = TestCluster::new().await;
        for name in IMMORTAL {
            assert_eq!(
                world
                    .delete(&NamespaceLifecycle, namespace(name, "Active"))
                    .unwrap_err(),
                format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted")
            );
        }
        assert!(
            world
                .delete(&NamespaceLifecycle, namespace("kube-node-lease", "Active"))
                .is_ok()
        );
    }
}
