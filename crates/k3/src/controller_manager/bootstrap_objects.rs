//! Objects that k3's controllers need and that upstream does not create: a default storage class, and roles of the controllers
//! that approve the certificates of nodes or patch statuses.
//!
//! An existing storage class stays unchanged, because an administrator may have edited it. Roles and bindings are reconciled: see
//! [`role_reconciliation`](super::role_reconciliation). Controllers start after the authorizer has read the roles, so that a first
//! start logs no "forbidden" errors.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use http::Request;
use k3_controllers::{
    OBSOLETE_STATUS_PATCH_ROLE, STATUS_PATCH_ROLES, join_approver_roles, serving_approver_roles,
};
use kube::Client;
use kubecontroller::{
    manager::BoxError,
    writer::{has_status_code, is_already_exists},
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::role_reconciliation::reconciled;

/// Annotation of the default storage class.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
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
    /// Paths of objects of earlier versions that are deleted.
    obsolete: Vec<String>,
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

/// Roles and bindings of the controllers that patch statuses.
pub(super) fn controller_status_roles() -> impl Iterator<Item = BootstrapObject> {
    STATUS_PATCH_ROLES
        .iter()
        .flat_map(|role| role_and_binding([role.role(), role.binding()]))
}

/// Paths of the binding and the role that [`controller_status_roles`] replaces.
pub(super) fn obsolete_controller_status_roles() -> [String; 2] {
    [CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES].map(|path| format!("{path}/{OBSOLETE_STATUS_PATCH_ROLE}"))
}

fn role_and_binding([role, binding]: [Value; 2]) -> [BootstrapObject; 2] {
    [
        BootstrapObject {
            path: CLUSTER_ROLES,
            object: role,
        },
        BootstrapObject {
            path: CLUSTER_ROLE_BINDINGS,
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

    /// Deletes the objects at these paths, if they exist.
    pub(super) fn delete(&mut self, paths: impl IntoIterator<Item = String>) {
        self.obsolete.extend(paths);
    }

    /// Makes controllers wait until `client` has a permission.
    pub(super) fn require(&mut self, client: Client, permission: RequiredPermission) {
        self.permissions.push((client, permission));
    }

    /// Creates missing objects, extends roles, deletes obsolete objects, and waits until the authorizer has read the roles.
    pub(super) async fn run(self) {
        if let Some(client) = &self.client {
            // A remote API server may be down: retry, because controllers cannot work without it anyway.
            while let Err(error) = apply(client, &self.objects, &self.obsolete).await {
                tracing::warn!(%error, "failed to create bootstrap objects; retrying");
                sleep(RETRY).await;
            }
        }
        // At once: without the permissions controllers start after one timeout, however many are missing.
        join_all(
            self.permissions
                .iter()
                .map(|(client, permission)| permission.wait(client)),
        )
        .await;
    }
}

/// Roles before bindings, because a binding to a missing role may be forbidden. Obsolete objects are deleted last, so that no
/// controller of another process is without its permission meanwhile.
async fn apply(client: &Client, objects: &[BootstrapObject], obsolete: &[String]) -> Result<(), BoxError> {
    let (bindings, others): (Vec<_>, Vec<_>) = objects.iter().partition(|object| object.is_binding());
    for objects in [others, bindings] {
        try_join_all(objects.into_iter().map(|object| object.apply(client))).await?;
    }
    for path in obsolete {
        match client
            .request::<Value>(Request::delete(path).body(Vec::new())?)
            .await
        {
            Err(error) if has_status_code(&error, 404) => {}
            deleted => drop(deleted?),
        }
    }
    Ok(())
}

// --- BootstrapObject ---

impl BootstrapObject {
    fn is_binding(&self) -> bool {
        self.object.get("roleRef").is_some()
    }

    /// Creates the object, or adds to an existing role or binding what it lacks.
    async fn apply(&self, client: &Client) -> Result<(), BoxError> {
        let name = self.object["metadata"]["name"].as_str();
        let name = name.ok_or("a bootstrap object has no name")?;
        let path = format!("{}/{name}", self.path);
        loop {
            let existing = match client
                .request::<Value>(Request::get(&path).body(Vec::new())?)
                .await
            {
                Ok(existing) => existing,
                Err(error) if has_status_code(&error, 404) => {
                    let created = client
                        .request::<Value>(with_body(Request::post(self.path), &self.object)?)
                        .await;
                    match created {
                        // Another process was faster.
                        Err(error) if is_already_exists(&error) => continue,
                        created => {
                            created?;
                            return Ok(());
                        }
                    }
                }
                Err(error) => return Err(error.into()),
            };
            let Some(update) = reconciled(&existing, &self.object) else {
                return Ok(());
            };
            match client
                .request::<Value>(with_body(Request::put(&path), &update)?)
                .await
            {
                // The object has changed since it was read.
                Err(error) if has_status_code(&error, 409) => {}
                updated => {
                    updated?;
                    return Ok(());
                }
            }
        }
    }
}

fn with_body(request: http::request::Builder, body: &Value) -> Result<Request<Vec<u8>>, BoxError> {
    let body = serde_json::to_vec(body)?;
    Ok(request.header("content-type", "application/json").body(body)?)
}

// --- RequiredPermission ---

impl RequiredPermission {
    /// Waits until `client` has the permission, for a limited time.
    async fn wait(&self, client: &Client) {
        let granted = async {
            while !self.is_granted(client).await {
                sleep(ROLE_POLL).await;
            }
        };
        if timeout(ROLE_TIMEOUT, granted).await.is_err() {
            tracing::warn!(
                resource = self.resource,
                verb = self.verb,
                "a controller lacks a permission: check its ClusterRoleBinding"
            );
        }
    }

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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
    use kubecontroller::testing::FakeApi;

    use super::*;

    async fn start(api: &FakeApi) {
        let mut bootstrap = Bootstrap::new(api.client());
        bootstrap.add(controller_status_roles());
        bootstrap.delete(obsolete_controller_status_roles());
        bootstrap.run().await;
    }

    fn role(api: &FakeApi, account: &str) -> ClusterRole {
        let name = format!("k3.io:controller-status-patch:{account}");
        api.get::<ClusterRole>("", &name).unwrap()
    }

    fn put(api: &FakeApi, object: Value) {
        match object["kind"].as_str() {
            Some("ClusterRole") => drop(api.put(&serde_json::from_value::<ClusterRole>(object).unwrap())),
            _ => drop(api.put(&serde_json::from_value::<ClusterRoleBinding>(object).unwrap())),
        }
    }

    #[tokio::test]
    async fn a_restart_writes_nothing() {
        let api = FakeApi::new();
        start(&api).await;
        assert_eq!(api.list::<ClusterRole>().len(), STATUS_PATCH_ROLES.len());
        assert_eq!(api.list::<ClusterRoleBinding>().len(), STATUS_PATCH_ROLES.len());
        let version = api.version();
        start(&api).await;
        assert_eq!(api.version(), version);
    }

    #[tokio::test]
    async fn extends_a_role_of_an_earlier_version() {
        let api = FakeApi::new();
        let binder = STATUS_PATCH_ROLES
            .iter()
            .find(|role| role.account == "persistent-volume-binder")
            .unwrap();
        let mut smaller = binder.role();
        smaller["rules"][0]["resources"] = json!(["persistentvolumes/status"]);
        put(&api, smaller.clone());
        start(&api).await;
        let rules = json!(role(&api, binder.account).rules);
        let claims =
            json!({"verbs": ["patch"], "apiGroups": [""], "resources": ["persistentvolumeclaims/status"]});
        assert_eq!(rules, json!([smaller["rules"][0], claims]));
    }

    #[tokio::test]
    async fn a_role_without_automatic_updates_stays() {
        let api = FakeApi::new();
        let mut narrowed = STATUS_PATCH_ROLES[0].role();
        narrowed["rules"] = json!([]);
        narrowed["metadata"]["annotations"] = json!({"rbac.authorization.kubernetes.io/autoupdate": "false"});
        put(&api, narrowed);
        start(&api).await;
        assert_eq!(role(&api, STATUS_PATCH_ROLES[0].account).rules, Some(Vec::new()));
    }

    #[tokio::test]
    async fn a_binding_to_another_role_gets_no_subjects() {
        let api = FakeApi::new();
        let mut other = STATUS_PATCH_ROLES[0].binding();
        other["roleRef"]["name"] = json!("cluster-admin");
        other["subjects"] = json!([]);
        put(&api, other);
        start(&api).await;
        let name = format!("{OBSOLETE_STATUS_PATCH_ROLE}:{}", STATUS_PATCH_ROLES[0].account);
        let binding = api.get::<ClusterRoleBinding>("", &name).unwrap();
        assert_eq!(binding.role_ref.name, "cluster-admin");
        assert_eq!(binding.subjects.as_deref().unwrap_or_default(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn missing_permissions_are_waited_for_at_once() {
        let api = FakeApi::new();
        let mut bootstrap = Bootstrap::new(api.client());
        for resource in ["jobs", "deployments", "daemonsets"] {
            let permission = RequiredPermission {
                group: "apps",
                resource,
                subresource: "status",
                verb: "patch",
                namespace: "",
                name: "",
            };
            bootstrap.require(api.client(), permission);
        }
        let began = tokio::time::Instant::now();
        bootstrap.run().await;
        let took = began.elapsed();
        assert!((ROLE_TIMEOUT..2 * ROLE_TIMEOUT).contains(&took), "{took:?}");
    }

    #[tokio::test]
    async fn removes_the_role_and_the_binding_that_all_accounts_shared() {
        let api = FakeApi::new();
        for kind in ["ClusterRole", "ClusterRoleBinding"] {
            let mut object = json!({"kind": kind, "metadata": {"name": "k3.io:controller-status-patch"}});
            if kind == "ClusterRoleBinding" {
                object["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": "k3.io:controller-status-patch"});
            }
            put(&api, object);
        }
        start(&api).await;
        assert!(api.get::<ClusterRole>("", OBSOLETE_STATUS_PATCH_ROLE).is_none());
        assert!(
            api.get::<ClusterRoleBinding>("", OBSOLETE_STATUS_PATCH_ROLE)
                .is_none()
        );
        assert_eq!(api.list::<ClusterRoleBinding>().len(), STATUS_PATCH_ROLES.len());
    }
}
