//! Resolves a Service to an endpoint.
//!
//! A ready endpoint is called directly, for nothing on this machine need know the way to cluster addresses; without one the
//! cluster address is.

use k3_api::{go, kinds::builtin, strategy::Tree};
use k3_storage::Revision;
use serde_json::Value;

use crate::{
    cache::WatchCaches,
    registry::{Resource, random_number},
};

/// Why a service leads nowhere.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServiceResolutionError {
    #[error("service {0} not found")]
    NotFound(String),
    /// It has no address.
    #[error("cannot route to service with ClusterIP \"None\"")]
    Headless,
    #[error("unsupported service type {0}")]
    Type(String),
    #[error("no service port {port} found for service {service}")]
    NoPort { port: u16, service: String },
}

/// The address and port to connect to.
// upstream: staging/src/k8s.io/apiserver/pkg/util/proxy/proxy.go ResolveEndpoint, ResolveCluster
pub(super) fn resolve(
    caches: &WatchCaches,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<(String, u16), ServiceResolutionError> {
    let absent = || ServiceResolutionError::NotFound(go::quote(name));
    let services = resource("", "services", caches);
    let key = services.key(namespace, name).map_err(|_| absent())?;
    let service = services.cache.get(&key).ok_or_else(absent)?.tree();
    let spec = service.at("spec");
    let found = spec
        .items("ports")
        .iter()
        .find(|found| found.int("port") == Some(i64::from(port)));
    match spec.text("type") {
        "ExternalName" => return Ok((spec.text("externalName").to_owned(), port)),
        "ClusterIP" if spec.text("clusterIP") == "None" => {
            return Err(ServiceResolutionError::Headless);
        }
        "ClusterIP" | "LoadBalancer" | "NodePort" => {}
        other => return Err(ServiceResolutionError::Type(go::quote(other))),
    }
    let found = found.ok_or_else(|| ServiceResolutionError::NoPort {
        port,
        service: go::quote(name),
    })?;
    let ready = endpoints(caches, namespace, name, found.text("name"), |_| true);
    if ready.is_empty() {
        return Ok((spec.text("clusterIP").to_owned(), port));
    }
    let chosen = random_number() as usize % ready.len();
    Ok(ready
        .into_iter()
        .nth(chosen)
        .expect("the position is within the list"))
}

/// The endpoints of a service's port that take requests and are `good`.
pub(crate) fn endpoints(
    caches: &WatchCaches,
    namespace: &str,
    service: &str,
    port: &str,
    good: impl Fn(&Value) -> bool,
) -> Vec<(String, u16)> {
    let slices = resource("discovery.k8s.io", "endpointslices", caches);
    let snapshot = slices.cache.snapshot(Revision::ZERO);
    let prefix = slices.under(namespace);
    let mut ready = Vec::new();
    for slice in snapshot.under(&prefix, None).map(|slice| slice.tree()) {
        if slice
            .at("metadata")
            .at("labels")
            .text("kubernetes.io/service-name")
            != service
        {
            continue;
        }
        let number = slice
            .items("ports")
            .iter()
            .find(|found| found.text("name") == port)
            .and_then(|found| u16::try_from(found.int("port")?).ok());
        let Some(number) = number else { continue };
        let is_taken = |endpoint: &&Value| {
            endpoint.at("conditions").at("ready") != &Value::Bool(false) && good(endpoint)
        };
        for endpoint in slice.items("endpoints").iter().filter(is_taken) {
            if let Some(address) = endpoint.texts("addresses").next() {
                ready.push((address.to_owned(), number));
            }
        }
    }
    ready
}

fn resource(group: &str, plural: &str, caches: &WatchCaches) -> Resource {
    let kind = builtin()
        .resource(group, "v1", plural)
        .expect("the resource is built in");
    Resource::of(kind, caches)
}
