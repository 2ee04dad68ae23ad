//! Values of statuses, read as tolerantly as upstream's types do.
//!
//! A status is written by kubelets and other clients, and an API server does not validate all of it. One value that no reader can
//! use must not hide the object: a pod that does not decode is not scheduled, and a node that does not decode gets no pods. Specs
//! are validated, so that an invalid value in a spec stays an error.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::jiff::{Timestamp, fmt::temporal::Pieces};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

use crate::{ResourceList, ResourceQuantity, ResourceRequirements, Shared};

/// Go's times end with the year 9999.
const LAST_YEAR: i16 = 9999;

struct TimeVisitor;

/// An amount, or nothing if it is not one.
struct StatusQuantity(Option<ResourceQuantity>);

struct StatusResourceList(ResourceList);

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusRequirements {
    requests: Option<StatusResourceList>,
}

/// A time. [`Timestamp`] ends 26 hours before Go's times do: what is later becomes the last timestamp.
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/time.go Time
pub(crate) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    from.deserialize_option(TimeVisitor)
}

/// How often a container was restarted. Upstream's number is signed, and nothing validates it.
// upstream: staging/src/k8s.io/api/core/v1/types.go ContainerStatus
pub(crate) fn restart_count<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let count = i32::deserialize(from)?;
    // Negative: no reader counts less than no restarts.
    Ok(u32::try_from(count).unwrap_or(0))
}

/// Amounts without those that are not quantities.
pub(crate) fn resource_list<'de, D: Deserializer<'de>>(from: D) -> Result<Shared<ResourceList>, D::Error> {
    StatusResourceList::deserialize(from).map(|list| Shared::new(list.0))
}

/// Optional amounts without those that are not quantities.
pub(crate) fn optional_resource_list<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Shared<ResourceList>>, D::Error> {
    let list = Option::<StatusResourceList>::deserialize(from)?;
    Ok(list.map(|list| Shared::new(list.0)))
}

/// Requirements without amounts that are not quantities.
pub(crate) fn requirements<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<ResourceRequirements>, D::Error> {
    let requirements = Option::<StatusRequirements>::deserialize(from)?;
    Ok(requirements.map(|requirements| ResourceRequirements {
        requests: requirements.requests.map(|list| Shared::new(list.0)),
    }))
}

// --- TimeVisitor ---

impl<'de> Visitor<'de> for TimeVisitor {
    type Value = Option<Timestamp>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a timestamp")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text.parse() {
            Ok(time) => Ok(Some(time)),
            Err(_) if is_after_last_timestamp(text) => Ok(Some(Timestamp::MAX)),
            Err(error) => Err(E::custom(error)),
        }
    }
}

/// Whether a text that is not a timestamp is a valid time that is too late for one.
fn is_after_last_timestamp(text: &str) -> bool {
    Pieces::parse(text).is_ok_and(|pieces| {
        pieces.date().year() == LAST_YEAR && pieces.time().is_some() && pieces.offset().is_some()
    })
}

// --- StatusQuantity ---

impl<'de> Deserialize<'de> for StatusQuantity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(StatusQuantityVisitor)
    }
}

struct StatusQuantityVisitor;

impl Visitor<'_> for StatusQuantityVisitor {
    type Value = StatusQuantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_unit<E: Error>(self) -> Result<StatusQuantity, E> {
        Ok(StatusQuantity(Some(ResourceQuantity::default())))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<StatusQuantity, E> {
        Ok(StatusQuantity(ResourceQuantity::parse(text).ok()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<StatusQuantity, E> {
        Ok(StatusQuantity(Some(ResourceQuantity::whole(number))))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<StatusQuantity, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<StatusQuantity, E> {
        self.visit_str(&number.to_string())
    }
}

// --- StatusResourceList ---

impl<'de> Deserialize<'de> for StatusResourceList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let amounts = BTreeMap::<Box<str>, StatusQuantity>::deserialize(from)?;
        let valid = amounts
            .into_iter()
            .filter_map(|(name, StatusQuantity(amount))| Some((name, amount?)));
        Ok(StatusResourceList(valid.collect()))
    }
}

#[cfg(test)]
mod tests {
    use kubecontroller::decode;
    use serde_json::json;

    use super::*;
    use crate::{Node, Pod};

    #[test]
    fn reads_times_up_to_the_end_of_the_year_9999() {
        let pod = |time: &str| {
            decode::from_value::<Pod>(&json!({"status": {"startTime": time, "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": time}]}}))
        };
        let usual = pod("2026-01-01T00:00:00Z").unwrap();
        assert_eq!(
            usual.status.start_time.unwrap().to_string(),
            "2026-01-01T00:00:00Z"
        );
        let late = pod("9999-12-31T23:59:59Z").unwrap();
        assert_eq!(late.status.start_time, Some(Timestamp::MAX));
        assert_eq!(
            late.status.conditions[0].last_transition_time,
            Some(Timestamp::MAX)
        );
        for invalid in ["", "yesterday", "9999-12-31", "9999-13-31T23:59:59Z"] {
            assert!(pod(invalid).is_err(), "{invalid}");
        }
        let absent: Pod = decode::from_value(&json!({"status": {"startTime": null}})).unwrap();
        assert_eq!(absent.status.start_time, None);
    }

    #[test]
    fn reads_negative_restart_counts_as_none() {
        let restarts = |count: i64| {
            let status = json!({"status": {"containerStatuses": [{"name": "c", "restartCount": count}]}});
            decode::from_value::<Pod>(&status).map(|pod| pod.restarts())
        };
        assert_eq!(restarts(3).unwrap(), 3);
        assert_eq!(restarts(-1).unwrap(), 0);
        assert!(restarts(1 << 31).is_err());
    }

    #[test]
    fn skips_invalid_amounts_of_statuses_and_rejects_those_of_specs() {
        let amounts = json!({"cpu": "2", "memory": "much", "pods": 110, "example.com/none": null});
        let node: Node = decode::from_value(&json!({"status": {"allocatable": amounts}})).unwrap();
        let names: Vec<_> = node.status.allocatable.keys().map(|name| &**name).collect();
        assert_eq!(names, ["cpu", "example.com/none", "pods"]);
        assert_eq!(node.milli_cpu(), 2_000);
        let container =
            json!({"name": "c", "allocatedResources": amounts, "resources": {"requests": amounts}});
        let pod: Pod = decode::from_value(&json!({"status": {"containerStatuses": [container],
            "allocatedResources": amounts, "resources": {"requests": amounts}}}))
        .unwrap();
        let status = &pod.status.container_statuses[0];
        for (own, resources) in [
            (&pod.status.allocated_resources, &pod.status.resources),
            (&status.allocated_resources, &status.resources),
        ] {
            assert_eq!(own.as_ref().unwrap().len(), 3);
            assert_eq!(resources.as_ref().unwrap().requests.as_ref().unwrap().len(), 3);
        }
        let spec = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": amounts}}]}});
        assert!(decode::from_value::<Pod>(&spec).is_err());
    }
}
