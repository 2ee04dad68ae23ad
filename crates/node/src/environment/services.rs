//! Variables that tell containers where services are.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};

use crate::Facts;

/// The variables of the services that a pod may know: those of its namespace if it wants links to them, and always that of the
/// API.
pub(super) fn of_pod(pod: &Pod, services: &[Arc<Service>], facts: &Facts) -> BTreeMap<String, String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let wants_links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links) != Some(false);
    let mut variables = BTreeMap::new();
    let mut has_own_api = false;
    let mut api = None;
    for service in services.iter().filter_map(Known::of) {
        if service.namespace == "default" && service.name == "kubernetes" {
            api = Some(service);
        } else if service.namespace == namespace && wants_links {
            has_own_api |= service.name == "kubernetes";
            service.add_to(&mut variables);
        }
    }
    // A service of the pod's namespace with the name of the API's hides that.
    if has_own_api {
        return variables;
    }
    match (&facts.api_address, api) {
        (Some((host, port)), _) => {
            let port = ServicePort {
                name: Some("https".to_owned()),
                port: i32::from(*port),
                ..ServicePort::default()
            };
            let reachable = Known {
                namespace: "default",
                name: "kubernetes",
                host,
                ports: std::slice::from_ref(&port),
            };
            reachable.add_to(&mut variables);
        }
        (None, Some(api)) => api.add_to(&mut variables),
        (None, None) => {}
    }
    variables
}

/// A service with an address.
struct Known<'a> {
    namespace: &'a str,
    name: &'a str,
    host: &'a str,
    ports: &'a [ServicePort],
}

// --- Known ---

impl<'a> Known<'a> {
    fn of(service: &'a Arc<Service>) -> Option<Self> {
        let spec = service.spec.as_ref()?;
        let host = spec
            .cluster_ip
            .as_deref()
            .filter(|ip| !matches!(*ip, "" | "None"))?;
        Some(Known {
            namespace: service.metadata.namespace.as_deref().unwrap_or_default(),
            name: service.metadata.name.as_deref()?,
            host,
            ports: spec.ports.as_deref().unwrap_or_default(),
        })
    }

    fn add_to(&self, variables: &mut BTreeMap<String, String>) {
        let name = variable(self.name);
        let mut add = |name: String, value: String| {
            variables.insert(name, value);
        };
        add(format!("{name}_SERVICE_HOST"), self.host.to_owned());
        for (index, port) in self.ports.iter().enumerate() {
            let number = port.port.to_string();
            let upper = port.protocol.as_deref().unwrap_or("TCP").to_uppercase();
            let lower = upper.to_lowercase();
            let address = if self.host.contains(':') {
                format!("{lower}://[{}]:{number}", self.host)
            } else {
                format!("{lower}://{}:{number}", self.host)
            };
            if index == 0 {
                add(format!("{name}_SERVICE_PORT"), number.clone());
                add(format!("{name}_PORT"), address.clone());
            }
            if let Some(port) = port.name.as_deref().filter(|name| !name.is_empty()) {
                add(format!("{name}_SERVICE_PORT_{}", variable(port)), number.clone());
            }
            let prefix = format!("{name}_PORT_{number}_{upper}");
            add(prefix.clone(), address);
            add(format!("{prefix}_PROTO"), lower);
            add(format!("{prefix}_PORT"), number);
            add(format!("{prefix}_ADDR"), self.host.to_owned());
        }
    }
}

/// A name as variables have it.
fn variable(name: &str) -> String {
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

    fn pod(links: bool) -> Pod {
        serde_json::from_value(json!({"metadata": {"namespace": "shop"}, "spec": {"containers": [], "enableServiceLinks": links}})).unwrap()
    }

    fn variables(links: bool, services: &[Arc<Service>], facts: &Facts) -> Vec<String> {
        let variables = of_pod(&pod(links), services, facts);
        variables
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    #[test]
    fn a_service_has_the_variables_of_upstream_and_of_docker() {
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
        assert_eq!(variables(true, &services, &Facts::default()), expected);
        assert!(variables(false, &services, &Facts::default()).is_empty());
    }

    #[test]
    fn the_api_is_told_to_all_and_where_it_can_be_reached() {
        let ports = json!([{"name": "https", "port": 443}]);
        let services = [service("default", "kubernetes", "10.0.0.1", &ports)];
        let plain = variables(false, &services, &Facts::default());
        assert!(plain.contains(&"KUBERNETES_SERVICE_HOST=10.0.0.1".to_owned()));
        assert!(plain.contains(&"KUBERNETES_SERVICE_PORT=443".to_owned()));
        let facts = Facts {
            api_address: Some(("fd00::2".to_owned(), 6443)),
            ..Facts::default()
        };
        for services in [&services[..], &[]] {
            let moved = variables(false, services, &facts);
            assert!(moved.contains(&"KUBERNETES_SERVICE_HOST=fd00::2".to_owned()));
            assert!(moved.contains(&"KUBERNETES_SERVICE_PORT_HTTPS=6443".to_owned()));
            assert!(moved.contains(&"KUBERNETES_PORT=tcp://[fd00::2]:6443".to_owned()));
            assert_eq!(moved.len(), 8);
        }
    }
}
