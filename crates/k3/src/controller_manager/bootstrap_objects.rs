//! Objects that k3's controllers need and that upstream does not create: a default storage class, and roles of the controllers
//! that approve the certificates of nodes or patch statuses.
//!
//! Each object is created once. An existing one stays unchanged, because an administrator may have edited it. Controllers start
//! after the authorizer has read the roles, so that a first start logs no "forbidden" errors.

use std::time::Duration;

use http::Request;
use k3_controllers::{join_approver_roles, serving_approver_roles, status_patch_roles};
use kube::Client;
use kubecontroller::manager::BoxError;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// Annotation of the default storage class.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// The authorizer needs milliseconds to read a role. An administrator may have removed the permission, so the wait is limited.
const ROLE_TIMEOUT: Duration = Duration::from_secs(5);
const ROLE_POLL: Duration = Duration::from_millis(5);
/// Interval between requests to an unavailable server.
const RETRY: Duration = Duration::from_secs(1);

/// An object, and the path of its collection.
pub(super) struct BootstrapObject {
    path: &'static str,
    object: Value,
}

/// The preparations before controllers start.
#[derive(Default)]
pub(super) struct Bootstrap {
    /// The client that creates the objects.
    client: Option<Client>,
    objects: Vec<BootstrapObject>,
    /// Clients of controllers, each with a permission to wait for.
    permissions: Vec<(Client, RequiredPermission)>,
}

/// A permission in a `SelfSubjectAccessReview`.
pub(super) struct RequiredPermission {
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
    /// Empty for the resource itself.
    pub(super) subresource: &'static str,
    pub(super) verb: &'static str,
    pub(super) namespace: &'static str,
    pub(super) name: &'static str,
}

/// The default storage class.
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

/// Role and binding of the controller that approves serving certificates of nodes.
pub(super) fn approver_roles() -> [BootstrapObject; 2] {
    role_and_binding(serving_approver_roles())
}

/// Role and binding of the controllers that patch statuses.
pub(super) fn controller_status_roles() -> [BootstrapObject; 2] {
    role_and_binding(status_patch_roles())
}

fn role_and_binding([role, binding]: [Value; 2]) -> [BootstrapObject; 2] {
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

/// Roles and bindings of the controller that approves requests of nodes that join.
pub(super) fn join_roles() -> [BootstrapObject; 4] {
    join_approver_roles().map(|(path, object)| BootstrapObject { path, object })
}

// --- Bootstrap ---

impl Bootstrap {
    pub(super) fn new(client: Client) -> Self {
        Bootstrap {
            client: Some(client),
            ..Bootstrap::default()
        }
    }

    pub(super) fn add(&mut self, objects: impl IntoIterator<Item = BootstrapObject>) {
        self.objects.extend(objects);
    }

    /// Makes controllers wait until `client` has a permission.
    pub(super) fn require(&mut self, client: Client, permission: RequiredPermission) {
        self.permissions.push((client, permission));
    }

    /// Creates missing objects, and waits until the authorizer has read the roles.
    pub(super) async fn run(self) {
        if let Some(client) = &self.client {
            // A remote API server may be down: retry, because controllers cannot work without it anyway.
            while let Err(error) = create_missing(client, &self.objects).await {
                tracing::warn!(%error, "failed to create bootstrap objects; retrying");
                sleep(RETRY).await;
            }
        }
        for (client, permission) in &self.permissions {
            let granted = async {
                while !permission.is_granted(client).await {
                    sleep(ROLE_POLL).await;
                }
            };
            if timeout(ROLE_TIMEOUT, granted).await.is_err() {
                tracing::warn!(
                    resource = permission.resource,
                    verb = permission.verb,
                    "a controller lacks a permission: check its ClusterRoleBinding"
                );
            }
        }
    }
}

async fn create_missing(client: &Client, objects: &[BootstrapObject]) -> Result<(), BoxError> {
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

// --- RequiredPermission ---

impl RequiredPermission {
    async fn is_granted(&self, client: &Client) -> bool {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "group": self.group,
                "resource": self.resource,
                "subresource": self.subresource,
                "verb": self.verb,
                "namespace": self.namespace,
                "name": self.name,
            }},
        });
        let request = Request::post(ACCESS_REVIEWS)
            .header("content-type", "application/json")
            .body(review.to_string().into_bytes());
        let Ok(request) = request else { return false };
        // Forbidden until the role system:basic-user is readable.
        let answer = client.request::<Value>(request).await;
        answer.is_ok_and(|answer| answer["status"]["allowed"] == true)
    }
}
