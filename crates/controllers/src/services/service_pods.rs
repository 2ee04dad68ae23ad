//! Index of Services and the pods that they select.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use k3_workloads::Pod;
use kubecontroller::{
    Key,
    informer::Delta,
    object::Object,
    store::{Index, Store},
};

use crate::objects::Service;

/// Services and pods, so that each finds the others. Clones are the same.
#[derive(Clone)]
pub(crate) struct ServicePods {
    /// Services by their first selector label: of all Services of a namespace, only these can select a pod.
    services: Index<Service>,
    pods: Index<Pod>,
}

// --- ServicePods ---

impl ServicePods {
    pub(crate) fn new(services: &Store<Service>, pods: &Store<Pod>) -> Self {
        let services = services.shared_index("selected", |service| {
            let first = service.spec.selector.iter().next();
            let first = first.map(|(label, value)| pair(&service.metadata.namespace, label, value));
            first.into_iter().collect()
        });
        ServicePods {
            services,
            pods: pods.by_namespace(),
        }
    }

    /// The pods that a service selects, in the order of their names.
    pub(crate) fn pods(&self, service: &Service) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.get(&service.metadata.namespace);
        pods.retain(|pod| service.selects(&pod.metadata.labels));
        pods
    }

    /// The services whose endpoints a change of a pod may change.
    // upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go GetServicesToUpdate, determineNeededServiceUpdates
    pub(crate) fn concerned(&self, delta: &Delta<Pod>) -> Vec<Key> {
        match delta {
            Delta::Sync { .. } => Vec::new(),
            // Pods get addresses some time after creation.
            Delta::Added { new, .. } if !can_serve(new) => Vec::new(),
            Delta::Added { new: pod, .. } | Delta::Deleted { last: pod, .. } => self.services(pod),
            Delta::Updated { old, new } | Delta::Replaced { old, new } => {
                if !matters(old, new) {
                    return Vec::new();
                }
                let mut keys = self.services(new);
                if old.metadata.labels != new.metadata.labels {
                    keys.extend(self.services(old));
                }
                keys
            }
        }
    }

    fn services(&self, pod: &Pod) -> Vec<Key> {
        let meta = &pod.metadata;
        let labels = meta.labels.iter();
        labels
            .flat_map(|(label, value)| self.services.get(&pair(&meta.namespace, label, value)))
            .filter(|service| service.selects(&meta.labels))
            .map(|service| service.key())
            .collect()
    }
}

fn pair(namespace: &str, label: &str, value: &str) -> String {
    format!("{namespace}/{label}={value}")
}

/// Whether a change of a pod can change endpoints. Most do not.
// upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go podEndpointsChanged
fn matters(old: &Pod, new: &Pod) -> bool {
    let state = |pod: &Pod| (pod.is_ready(), pod.metadata.is_terminating(), can_serve(pod));
    if !can_serve(old) && !can_serve(new) {
        return false;
    }
    state(old) != state(new)
        || old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || (&old.status.ip, &old.status.ips) != (&new.status.ip, &new.status.ips)
        || (&old.spec.hostname, &old.spec.template.subdomain)
            != (&new.spec.hostname, &new.spec.template.subdomain)
}

/// Whether a pod can be an endpoint: it has an address and has not ended.
// upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go ShouldPodBeInEndpoints
pub(crate) fn can_serve(pod: &Pod) -> bool {
    let has_address = !pod.status.ip.is_empty() || !pod.status.ips.is_empty();
    has_address && !pod.has_ended()
}

/// The addresses of a pod.
pub(crate) fn addresses(pod: &Pod) -> impl Iterator<Item = IpAddr> {
    let only = pod.status.ips.is_empty().then_some(&pod.status.ip);
    only.into_iter()
        .chain(&pod.status.ips)
        .filter_map(|ip| address(ip))
}

/// The name that a pod has within a service; `None` if it has none there.
// upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go ShouldSetHostname
pub(crate) fn hostname<'a>(pod: &'a Pod, service: &Service) -> Option<&'a str> {
    let is_there = !pod.spec.hostname.is_empty() && pod.spec.template.subdomain == service.metadata.name;
    is_there.then_some(&*pod.spec.hostname)
}

/// An address as it may be written: numbers with zeros before them, and addresses of IPv4 in the form of IPv6.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    let strict = text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    strict.or_else(|| {
        let numbers: Option<Vec<u8>> = text.split('.').map(|number| number.parse().ok()).collect();
        let octets: [u8; 4] = numbers?.try_into().ok()?;
        Some(Ipv4Addr::from(octets).into())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn parses_all_address_notations() {
        for (text, read) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.0.1", Some("10.0.0.1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("2001:DB8:0:0::1", Some("2001:db8::1")),
            ("10.0.0", None),
            ("10.0.0.256", None),
            ("", None),
        ] {
            assert_eq!(address(text).map(|ip| ip.to_string()).as_deref(), read, "{text}");
        }
    }

    #[test]
    fn ignores_pod_changes_without_effect_on_endpoints() {
        let base = json!({"metadata": {"name": "p", "labels": {"app": "a"}}, "status": {"podIPs": [{"ip": "1.2.3.4"}]}});
        let with = |path: &str, value: Value| {
            let mut changed = base.clone();
            *changed.pointer_mut(path).unwrap() = value;
            changed
        };
        let ready =
            json!({"podIPs": [{"ip": "1.2.3.4"}], "conditions": [{"type": "Ready", "status": "True"}]});
        let scheduled = json!({"podIPs": [{"ip": "1.2.3.4"}], "conditions": [{"type": "PodScheduled", "status": "True"}]});
        for (changed, does) in [
            (with("/status", ready), true),
            (with("/status", scheduled), false),
            (with("/status", json!({"podIPs": [{"ip": "1.2.3.5"}]})), true),
            (with("/status", json!({})), true),
            (
                with("/metadata", json!({"name": "p", "labels": {"app": "b"}})),
                true,
            ),
            (
                with(
                    "/metadata",
                    json!({"name": "p", "labels": {"app": "a"}, "annotations": {"a": "b"}}),
                ),
                false,
            ),
        ] {
            assert_eq!(
                matters(&pod(base.clone()), &pod(changed.clone())),
                does,
                "{changed}"
            );
        }
    }
}
