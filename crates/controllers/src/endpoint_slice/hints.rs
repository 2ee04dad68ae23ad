//! Hints for traffic distribution (KEP-4444, KEP-3015).

use crate::objects::{Endpoint, EndpointHints, Service};

/// Annotations for topology aware hints; see `topology`.
const MODES: [&str; 2] = [
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
];

/// spec.trafficDistribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrafficDistribution {
    None,
    /// PreferSameZone, or its older name PreferClose.
    SameZone,
    /// PreferSameNode.
    SameNode,
}

/// Whether the Service has the annotation for topology aware hints.
// upstream: staging/src/k8s.io/endpointslice/utils.go hintsEnabled
pub(super) fn is_automatic(service: &Service) -> bool {
    let mode = MODES.iter().find_map(|note| service.metadata.annotation(note));
    matches!(mode, Some("Auto" | "auto"))
}

// --- TrafficDistribution ---

impl TrafficDistribution {
    /// From a Service.
    // upstream: staging/src/k8s.io/endpointslice/reconciler.go validTrafficDistribution
    pub(super) fn of(service: &Service) -> Self {
        if is_automatic(service) {
            return TrafficDistribution::None;
        }
        match &*service.spec.traffic_distribution {
            "PreferClose" | "PreferSameZone" => TrafficDistribution::SameZone,
            "PreferSameNode" => TrafficDistribution::SameNode,
            _ => TrafficDistribution::None,
        }
    }

    /// Whether an endpoint's hints differ from the desired ones.
    // upstream: staging/src/k8s.io/endpointslice/trafficdist/trafficdist.go needsUpdate
    pub(super) fn needs_update(self, endpoint: &Endpoint) -> bool {
        self.hints(endpoint) != endpoint.hints
    }

    /// Sets the hints of an endpoint.
    // upstream: staging/src/k8s.io/endpointslice/trafficdist/trafficdist.go ReconcileHints, update
    pub(super) fn apply(self, endpoint: &mut Endpoint) {
        endpoint.hints = self.hints(endpoint);
    }

    fn hints(self, endpoint: &Endpoint) -> Option<Box<EndpointHints>> {
        let node = endpoint.node_name.as_deref();
        match self {
            TrafficDistribution::None => None,
            // An endpoint that is not ready gets no traffic; existing hints are kept to avoid an update.
            _ if endpoint.conditions.ready != Some(true) => endpoint.hints.clone(),
            TrafficDistribution::SameZone => EndpointHints::new(endpoint.zone.as_deref(), None),
            TrafficDistribution::SameNode => EndpointHints::new(endpoint.zone.as_deref(), node),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(annotations: Value, distribution: &str) -> Service {
        let mut service = json!({"metadata": {}, "spec": {"trafficDistribution": distribution}});
        service["metadata"]["annotations"] = annotations;
        serde_json::from_value(service).unwrap()
    }

    #[test]
    fn reads_traffic_distribution() {
        for (annotations, distribution, expected) in [
            (json!({}), "", TrafficDistribution::None),
            (json!({}), "PreferClose", TrafficDistribution::SameZone),
            (json!({}), "PreferSameZone", TrafficDistribution::SameZone),
            (json!({}), "PreferSameNode", TrafficDistribution::SameNode),
            (json!({}), "Other", TrafficDistribution::None),
            (
                json!({MODES[1]: "Auto"}),
                "PreferClose",
                TrafficDistribution::None,
            ),
            (
                json!({MODES[1]: "Disabled"}),
                "PreferClose",
                TrafficDistribution::SameZone,
            ),
            (
                json!({MODES[0]: "other", MODES[1]: "Auto"}),
                "PreferClose",
                TrafficDistribution::SameZone,
            ),
        ] {
            assert_eq!(
                TrafficDistribution::of(&service(annotations.clone(), distribution)),
                expected,
                "{annotations}"
            );
        }
    }

    #[test]
    fn sets_zone_and_node_hints() {
        let with = |preference: TrafficDistribution, endpoint: &Value| {
            let mut endpoint: Endpoint = serde_json::from_value(endpoint.clone()).unwrap();
            preference.apply(&mut endpoint);
            json!(endpoint)["hints"].clone()
        };
        let near = TrafficDistribution::SameZone;
        let same = TrafficDistribution::SameNode;
        let zone = json!([{"name": "z"}]);
        let ready = json!({"conditions": {"ready": true}, "nodeName": "n", "zone": "z"});
        assert_eq!(with(near, &ready), json!({"forZones": zone}));
        assert_eq!(
            with(same, &ready),
            json!({"forZones": zone, "forNodes": [{"name": "n"}]})
        );
        let nowhere = json!({"conditions": {"ready": true}, "hints": {"forZones": zone}});
        assert_eq!(with(near, &nowhere), Value::Null);
        let not_ready = json!({"conditions": {"ready": false}, "zone": "y", "hints": {"forZones": zone}});
        assert_eq!(with(near, &not_ready), json!({"forZones": zone}));
        assert_eq!(with(TrafficDistribution::None, &not_ready), Value::Null);
    }
}
