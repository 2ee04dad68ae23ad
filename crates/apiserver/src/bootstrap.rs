//! Creates the objects of a new cluster at start.
//!
//! Promises: what is missing is made at every start, what is there is left as it is. Two servers that start at once make each
//! object once.

use futures_util::future::try_join_all;
use k3_api::{
    bootstrap,
    kinds::{Kind, builtin},
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use crate::{
    Config, EndpointReconcilerType, NODE_CLIENT_USER, StartError,
    registry::{Registry, own_user},
    service_range::kubernetes_address,
    usage,
};

/// The default secure port.
const USUAL_PORT: u16 = 6443;

/// Makes what is missing: first the namespaces and the range that services get addresses from, then everything else at once,
/// so that the store takes it in few steps.
// upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go ClusterRoles, ClusterRoleBindings; pkg/registry/rbac/rest/storage_rbac.go ensures them
pub(crate) async fn run(registry: &Registry, config: &Config) -> Result<(), StartError> {
    let objects = bootstrap::objects().chain(bootstrap::api_services());
    let (first, others): (Vec<_>, Vec<_>) = objects
        .chain(of_cluster(config))
        .chain(config.usage.then(of_usage).into_iter().flatten())
        .chain(config.nodes.is_some().then(node_client_binding))
        .partition(|object| ["Namespace", "ServiceCIDR"].contains(&object.text("kind")));
    for objects in [first, others] {
        try_join_all(objects.into_iter().map(|object| make(registry, object))).await?;
    }
    Ok(())
}

/// The API service and roles of `metrics.k8s.io`.
fn of_usage() -> Vec<Value> {
    let group = usage::GROUP;
    let version = usage::VERSION;
    vec![
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {
                "name": format!("{version}.{group}"),
                "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
            },
            "spec": {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100},
            "status": {},
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": "system:aggregated-metrics-reader",
                "labels": {
                    "rbac.authorization.k8s.io/aggregate-to-admin": "true",
                    "rbac.authorization.k8s.io/aggregate-to-edit": "true",
                    "rbac.authorization.k8s.io/aggregate-to-view": "true",
                },
            },
            "rules": [{"apiGroups": [group], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
        }),
    ]
}

/// What lets the server call nodes. Upstream's tools make the like.
fn node_client_binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "k3.io:kube-apiserver-kubelet-client"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:kubelet-api-admin",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": NODE_CLIENT_USER}],
    })
}

/// Objects that depend on the configuration: the service `kubernetes`. Its endpoints are written by `endpoint_reconciler`.
fn of_cluster(config: &Config) -> Vec<Value> {
    let port = match config.endpoint_reconciler {
        // The port of a server that is not advertised does not matter.
        EndpointReconcilerType::Hidden => USUAL_PORT,
        EndpointReconcilerType::Alone | EndpointReconcilerType::Among => config.advertise.1,
    };
    let cluster_ip = kubernetes_address(&config.service_range);
    let range = format!("{}/{}", config.service_range.network, config.service_range.prefix);
    let mut service = bootstrap::kubernetes_service(cluster_ip, port);
    service.ensure_object("metadata").remove("uid");
    vec![
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes", "finalizers": ["networking.k8s.io/service-cidr-finalizer"]},
            "spec": {"cidrs": [range]},
            "status": {},
        }),
        service,
    ]
}

async fn make(registry: &Registry, object: Value) -> Result<(), StartError> {
    let failed = |what: &Value, why: String| StartError::Bootstrap {
        what: format!("{} {}", what.text("kind"), what.at("metadata").text("name")),
        why,
    };
    let Some(kind) = kind_of(&object) else {
        return Err(failed(&object, "there is no such kind".to_owned()));
    };
    let metadata = object.at("metadata");
    let resource = registry.resource(kind);
    let key = resource
        .key(metadata.text("namespace"), metadata.text("name"))
        .map_err(|status| failed(&object, status.message))?;
    if resource.cache.get(&key).is_some() {
        return Ok(());
    }
    let manager = bootstrap::manager(&object);
    match registry
        .create_own(kind.into(), object.clone(), own_user(), manager)
        .await
    {
        Ok(()) => Ok(()),
        // Another server was faster.
        Err(status) if status.code == 409 => Ok(()),
        // Another service took the address while this one did not exist. An administrator has to release it.
        Err(status) if kind.kind == "Service" && status.code == 422 => {
            tracing::error!(why = status.message, "failed to create the service kubernetes");
            Ok(())
        }
        Err(status) => Err(failed(&object, status.message)),
    }
}

fn kind_of(object: &Value) -> Option<&'static Kind> {
    let version = object.text("apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    builtin().kind(group, version, object.text("kind"))
}
