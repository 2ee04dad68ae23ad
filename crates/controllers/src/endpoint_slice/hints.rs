//! Who is to use an endpoint: those who are near it, if the service asks for that.

use crate::objects::{Endpoint, Hints, Service};

/// Notes that ask for another way to decide that: see `topology`.
const MODES: [&str; 2] = [
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
];

/// Who is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    /// Nobody.
    Nobody,
    /// Who is in the same zone.
    SameZone,
    /// Who is on the same node, then who is in the same zone.
    SameNode,
}

/// Whether a service asks by a note that hints follow from where processors are.
pub(super) fn is_automatic(service: &Service) -> bool {
    let mode = MODES.iter().find_map(|note| service.metadata.annotation(note));
    matches!(mode, Some("Auto" | "auto"))
}

// --- Preference ---

impl Preference {
    /// What a service asks for.
    pub(super) fn of(service: &Service) -> Self {
        if is_automatic(service) {
            return Preference::Nobody;
        }
        match &*service.spec.traffic_distribution {
            "PreferClose" | "PreferSameZone" => Preference::SameZone,
            "PreferSameNode" => Preference::SameNode,
            _ => Preference::Nobody,
        }
    }

    /// Whether the hints of an endpoint are others than it should have.
    pub(super) fn is_missed(self, endpoint: &Endpoint) -> bool {
        self.hints(endpoint) != endpoint.hints
    }

    /// Gives an endpoint the hints it should have.
    pub(super) fn apply(self, endpoint: &mut Endpoint) {
        endpoint.hints = self.hints(endpoint);
    }

    fn hints(self, endpoint: &Endpoint) -> Option<Box<Hints>> {
        let node = endpoint.node_name.as_deref();
        match self {
            Preference::Nobody => None,
            // Nobody is sent there for now; what was said before does no harm.
            _ if endpoint.conditions.ready != Some(true) => endpoint.hints.clone(),
            Preference::SameZone => Hints::new(endpoint.zone.as_deref(), None),
            Preference::SameNode => Hints::new(endpoint.zone.as_deref(), node),
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
    fn a_service_asks_for_what_is_near() {
        for (annotations, distribution, expected) in [
            (json!({}), "", Preference::Nobody),
            (json!({}), "PreferClose", Preference::SameZone),
            (json!({}), "PreferSameZone", Preference::SameZone),
            (json!({}), "PreferSameNode", Preference::SameNode),
            (json!({}), "Other", Preference::Nobody),
            (json!({MODES[1]: "Auto"}), "PreferClose", Preference::Nobody),
            (json!({MODES[1]: "Disabled"}), "PreferClose", Preference::SameZone),
            (
                json!({MODES[0]: "other", MODES[1]: "Auto"}),
                "PreferClose",
                Preference::SameZone,
            ),
        ] {
            assert_eq!(
                Preference::of(&service(annotations.clone(), distribution)),
                expected,
                "{annotations}"
            );
        }
    }

    #[test]
    fn an_endpoint_is_for_its_zone_and_its_node() {
        let with = |preference: Preference, endpoint: &Value| {
            let mut endpoint: Endpoint = serde_json::from_value(endpoint.clone()).unwrap();
            preference.apply(&mut endpoint);
            json!(endpoint)["hints"].clone()
        };
        let (near, same) = (Preference::SameZone, Preference::SameNode);
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
        assert_eq!(with(Preference::Nobody, &not_ready), Value::Null);
    }
}
