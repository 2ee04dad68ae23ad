//! Nothing is created in a namespace that is not there, or that is going; and some namespaces stay.

use k3_api::{
    status::{Status, StatusCause},
    strategy::Tree,
};

use super::{Attributes, Operation, Plugin, resource};
use crate::cache::Caches;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The plugin.
pub(super) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn admit(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
        let is_namespace = attributes.is_of("", "namespaces");
        match attributes.operation {
            Operation::Delete if is_namespace => {
                let name = attributes.object.at("metadata").text("name");
                if IMMORTAL.contains(&name) {
                    return Err(attributes.forbidden("this namespace may not be deleted"));
                }
                Ok(())
            }
            // Whoever asks what is allowed in a namespace is not told whether it is there.
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

/// Refuses what would come into a namespace that cannot take it.
fn check(attributes: &Attributes<'_>, caches: &Caches) -> Result<(), Status> {
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

    use super::{super::testing::World, *};

    fn namespace(name: &str, phase: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": phase}})
    }

    fn secret(namespace: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}})
    }

    #[tokio::test]
    async fn what_is_created_needs_a_namespace_that_stays() {
        let world = World::new().await;
        world.put(namespace("here", "Active")).await;
        world.put(namespace("going", "Terminating")).await;
        assert!(world.admit(&NamespaceLifecycle, secret("here")).is_ok());
        assert_eq!(
            world.admit(&NamespaceLifecycle, secret("absent")).unwrap_err(),
            r#"namespaces "absent" not found"#
        );
        assert_eq!(
            world.admit(&NamespaceLifecycle, secret("going")).unwrap_err(),
            r#"secrets "s" is forbidden: unable to create new content in namespace going because it is being terminated"#
        );
    }

    #[tokio::test]
    async fn what_is_there_can_be_changed_and_deleted_while_its_namespace_goes() {
        let world = World::new().await;
        world.put(namespace("going", "Terminating")).await;
        let secret = secret("going");
        assert!(world.update(&NamespaceLifecycle, secret.clone(), &secret).is_ok());
        assert!(world.delete(&NamespaceLifecycle, secret).is_ok());
    }

    #[tokio::test]
    async fn the_namespaces_of_the_system_stay() {
        let world = World::new().await;
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
