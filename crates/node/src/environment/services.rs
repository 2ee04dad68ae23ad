//! Service environment variables, such as `MY_DB_SERVICE_HOST`.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};

use crate::NodeFacts;

/// The variables of the services in the namespace of the pod, unless `enableServiceLinks` is false, and those of
/// `default/kubernetes`.
// upstream: pkg/kubelet/kubelet_pods.go getServiceEnvVarMap
pub(super) fn service_env_vars(
    pod: &Pod,
    services: &[Arc<Service>],
    facts: &NodeFacts,
) -> BTreeMap<String, String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let enable_service_links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links) != Some(false);
    let mut variables = BTreeMap::new();
    let mut has_service_named_kubernetes = false;
    let mut kubernetes = None;
    for service in services.iter().filter_map(AddressedService::from_service) {
        if service.namespace == "default" && service.name == "kubernetes" {
            kubernetes = Some(service);
        } else if service.namespace == namespace && enable_service_links {
            has_service_named_kubernetes |= service.name == "kubernetes";
            service.add_env_vars(&mut variables);
        }
    }
    // A service `kubernetes` in the namespace of the pod hides the one in `default`, as upstream.
    if has_service_named_kubernetes {
        return variables;
    }
    match (&facts.api_address, kubernetes) {
        // The cluster IP may not be routed on this node, so a configured address of the API server replaces it.
        (Some((host, port)), _) => {
            let port = ServicePort {
                name: Some("https".to_owned()),
                port: i32::from(*port),
                ..ServicePort::default()
            };
            let service = AddressedService {
                namespace: "default",
                name: "kubernetes",
                host,
                ports: std::slice::from_ref(&port),
            };
            service.add_env_vars(&mut variables);
        }
        (None, Some(service)) => service.add_env_vars(&mut variables),
        (None, None) => {}
    }
    variables
}

/// A service that has a cluster IP.
struct AddressedService<'a> {
    namespace: &'a str,
    name: &'a str,
    host: &'a str,
    ports: &'a [ServicePort],
}

// --- AddressedService ---

impl<'a> AddressedService<'a> {
    /// `None` for a headless service.
    fn from_service(service: &'a Arc<Service>) -> Option<Self> {
        let spec = service.spec.as_ref()?;
        let host = spec
            .cluster_ip
            .as_deref()
            .filter(|ip| !matches!(*ip, "" | "None"))?;
        Some(AddressedService {
            namespace: service.metadata.namespace.as_deref().unwrap_or_default(),
            name: service.metadata.name.as_deref()?,
            host,
            ports: spec.ports.as_deref().unwrap_or_default(),
        })
    }

    // upstream: pkg/kubelet/envvars/envvars.go FromServices, makeLinkVariables
    fn add_env_vars(&self, variables: &mut BTreeMap<String, String>) {
        let name = make_env_variable_name(self.name);
        let mut add = |name: String, value: String| {
            variables.insert(name, value);
        };
        add(format!("{name}_SERVICE_HOST"), self.host.to_owned());
        for (index, port) in self.ports.iter().enumerate() {
            let number = port.port.to_string();
            let protocol = port.protocol.as_deref().unwrap_or("TCP").to_uppercase();
            let scheme = protocol.to_lowercase();
            let address = if self.host.contains(':') {
                format!("{scheme}://[{}]:{number}", self.host)
            } else {
                format!("{scheme}://{}:{number}", self.host)
            };
            if index == 0 {
                add(format!("{name}_SERVICE_PORT"), number.clone());
                add(format!("{name}_PORT"), address.clone());
            }
            if let Some(port) = port.name.as_deref().filter(|name| !name.is_empty()) {
                let port_name = make_env_variable_name(port);
                add(format!("{name}_SERVICE_PORT_{port_name}"), number.clone());
            }
            let prefix = format!("{name}_PORT_{number}_{protocol}");
            add(prefix.clone(), address);
            add(format!("{prefix}_PROTO"), scheme);
            add(format!("{prefix}_PORT"), number);
            add(format!("{prefix}_ADDR"), self.host.to_owned());
        }
    }
}

// upstream: pkg/kubelet/envvars/envvars.go makeEnvVariableName
fn make_env_variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(namespace: &str, name: &str, ip: &str, ports: &serde_json::Value) -> Arc<Service> {
        let service = json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": ip, "ports": ports}});
        Arc::new(serde_json::from_value(service).unwrap())
    }

    #[derive(Clone, Copy, PartialEq)]
    enum ServiceLinks {
        Enabled,
        Disabled,
    }

    fn pod(links: ServiceLinks) -> Pod {
        let enable_service_links = links == ServiceLinks::Enabled;
        serde_json::from_value(json!({"metadata": {"namespace": "shop"}, "spec": {"containers": [], "enableServiceLinks": enable_service_links}})).unwrap()
    }

    fn variables(links: ServiceLinks, services: &[Arc<Service>], facts: &NodeFacts) -> Vec<String> {
        let variables = service_env_vars(&pod(links), services, facts);
        variables
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    #[test]
    fn service_has_host_port_and_docker_link_variables() {
        let ports = json!([{"name": "web-ui", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
        let services = [
            service("shop", "my-db", "10.0.0.9", &ports),
            service("other", "far", "10.0.0.8", &ports),
            service("shop", "headless", "None", &ports),
        ];
        let expected = [
            "MY_DB_PORT=tcp://10.0.0.9:80",
            "MY_DB_PORT_53_UDP=udp://10.0.0.9:53",
            "MY_DB_PORT_53_UDP_ADDR=10.0.0.9",
            "MY_DB_PORT_53_UDP_PORT=53",
            "MY_DB_PORT_53_UDP_PROTO=udp",
            "MY_DB_PORT_80_TCP=tcp://10.0.0.9:80",
            "MY_DB_PORT_80_TCP_ADDR=10.0.0.9",
            "MY_DB_PORT_80_TCP_PORT=80",
            "MY_DB_PORT_80_TCP_PROTO=tcp",
            "MY_DB_SERVICE_HOST=10.0.0.9",
            "MY_DB_SERVICE_PORT=80",
            "MY_DB_SERVICE_PORT_DNS=53",
            "MY_DB_SERVICE_PORT_WEB_UI=80",
        ];
        assert_eq!(
            variables(ServiceLinks::Enabled, &services, &NodeFacts::default()),
            expected
        );
        assert!(variables(ServiceLinks::Disabled, &services, &NodeFacts::default()).is_empty());
    }

    #[test]
    fn kubernetes_service_is_always_included_with_reachable_address() {
        let ports = json!([{"name": "https", "port": 443}]);
        let services = [service("default", "kubernetes", "10.0.0.1", &ports)];
        let with_cluster_ip = variables(ServiceLinks::Disabled, &services, &NodeFacts::default());
        assert!(with_cluster_ip.contains(&"KUBERNETES_SERVICE_HOST=10.0.0.1".to_owned()));
        assert!(with_cluster_ip.contains(&"KUBERNETES_SERVICE_PORT=443".to_owned()));
        let facts = NodeFacts {
            api_address: Some(("fd00::2".to_owned(), 6443)),
            ..NodeFacts::default()
        };
        for services in [&services[..], &[]] {
            let with_api_address = variables(ServiceLinks::Disabled, services, &facts);
            assert!(with_api_address.contains(&"KUBERNETES_SERVICE_HOST=fd00::2".to_owned()));
            assert!(with_api_address.contains(&"KUBERNETES_SERVICE_PORT_HTTPS=6443".to_owned()));
            assert!(with_api_address.contains(&"KUBERNETES_PORT=tcp://[fd00::2]:6443".to_owned()));
            assert_eq!(with_api_address.len(), 8);
        }
    }
}
