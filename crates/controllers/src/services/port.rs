//! Finds the port of a pod for a Service port (targetPort).

use k3_workloads::{IntOrString, Pod};

use crate::objects::{Service, ServicePort};

/// A port of a service, and the number that a pod has for it.
pub(crate) type PodPort<'a> = (&'a ServicePort, i32);

/// The ports of a service that a pod has.
pub(crate) fn ports_of<'a>(service: &'a Service, pod: &Pod) -> Vec<PodPort<'a>> {
    let ports = service.spec.ports.iter();
    ports
        .filter_map(|port| number(pod, port).map(|number| (port, number)))
        .collect()
}

// upstream: staging/src/k8s.io/endpointslice/utils.go FindPort
fn number(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        IntOrString::Int(number) => return Some(*number),
        IntOrString::String(name) => name,
    };
    let containers = pod.spec.template.containers.iter().chain(pod.spec.sidecars());
    let mut ports = containers.flat_map(|container| &container.ports);
    ports
        .find(|own| own.name == *name && own.protocol == port.protocol)
        .map(|own| i32::from(own.container_port))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resolves_named_ports_by_protocol() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "containers": [{"name": "c", "ports": [
                {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                {"name": "dns", "containerPort": 54, "protocol": "TCP"}]}],
            "initContainers": [
                {"name": "first", "ports": [{"name": "early", "containerPort": 1, "protocol": "TCP"}]},
                {"name": "beside", "restartPolicy": "Always", "ports": [{"name": "metrics", "containerPort": 9, "protocol": "TCP"}]}]}}))
        .unwrap();
        let number = |target: serde_json::Value| {
            let port = json!({"protocol": "TCP", "targetPort": target});
            number(&pod, &serde_json::from_value(port).unwrap())
        };
        assert_eq!(number(json!(8080)), Some(8080));
        assert_eq!(number(json!("dns")), Some(54));
        assert_eq!(number(json!("metrics")), Some(9));
        assert_eq!(number(json!("early")), None);
    }
}
