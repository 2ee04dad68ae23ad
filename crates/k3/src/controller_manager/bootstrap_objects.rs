//! What controllers object that no cluster of upstream's is born with: a default class of volumes, and the role of who approves
//! the certificates of nodes.
//!
//! Promise: each is made once. What is there already stays as it is: an administrator may have changed it.

use http::Request;
use k3_controllers::{join_approver_roles, serving_approver_roles};
use kube::Client;
use kubecontroller::manager::BoxError;
use serde_json::{Value, json};

/// Says that a class is that of claims that name none.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// An object, and where it is made.
pub(super) struct BootstrapObject {
    path: &'static str,
    object: Value,
}

/// The class that claims get that name none.
pub(super) fn local_path_class() -> BootstrapObject {
    BootstrapObject {
        path: "/apis/storage.k8s.io/v1/storageclasses",
        object: json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local-path", "annotations": {DEFAULT_CLASS: "true"}},
            "provisioner": "k3.io/local-path",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "WaitForFirstConsumer",
        }),
    }
}

/// The right to approve what nodes serve with.
pub(super) fn approver_roles() -> [BootstrapObject; 2] {
    let [role, binding] = serving_approver_roles();
    [
        BootstrapObject {
            path: "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            object: role,
        },
        BootstrapObject {
            path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            object: binding,
        },
    ]
}

/// The rights of who approves the requests of nodes that join.
pub(super) fn join_roles() -> [BootstrapObject; 4] {
    join_approver_roles().map(|(path, object)| BootstrapObject { path, object })
}

/// Makes what is missing.
pub(super) async fn create_missing(client: &Client, objects: &[BootstrapObject]) -> Result<(), BoxError> {
    for object in objects {
        let body = serde_json::to_vec(&object.object)?;
        let request = Request::post(object.path)
            .header("content-type", "application/json")
            .body(body)?;
        match client.request::<Value>(request).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            created => drop(created?),
        }
    }
    Ok(())
}
