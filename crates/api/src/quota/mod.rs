//! ResourceQuota evaluators: the usage of an object, and the quotas whose scopes match it.
//!
//! ```text
//! scope                          which objects a quota is about
//! pod, service, claim, device    what an object uses, by the names that quotas have for it
//! ```

mod claim;
mod device;
mod pod;
mod scope;
mod service;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

pub use self::{
    device::DeviceClassIndex,
    pod::MissingConstraints,
    scope::{ScopeAttributes, ScopeSelector, is_terminating},
};
use crate::{
    kinds::pod_amounts::Totals,
    quantity::{Format, Quantity},
    time::Time,
};

/// What counts the objects of a resource.
#[derive(Clone, Debug)]
pub enum QuotaEvaluator {
    /// Pods: what they ask for.
    Pods,
    /// Services: their ports and balancers.
    Services,
    /// Claims of storage: their sizes.
    Claims,
    /// Claims of devices, of these classes.
    Devices(Arc<DeviceClassIndex>),
    /// Others are counted, under these names.
    Count(Vec<String>),
}

/// What else there is: what a claim of devices uses depends on the pod that it was made for.
pub trait UsageLookup {
    /// A pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<Value>;

    /// The claims of devices of a namespace.
    fn device_claims(&self, namespace: &str) -> Vec<Value>;
}

/// Resources that quotas also know by a short name.
const SHORT: [&str; 4] = [
    "configmaps",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
];

const REQUESTS: &str = "requests.";

// --- QuotaEvaluator ---

impl QuotaEvaluator {
    /// What counts the objects of a resource.
    pub fn of(group: &str, plural: &str, classes: impl FnOnce() -> Arc<DeviceClassIndex>) -> Self {
        match (group, plural) {
            ("", "pods") => QuotaEvaluator::Pods,
            ("", "services") => QuotaEvaluator::Services,
            ("", "persistentvolumeclaims") => QuotaEvaluator::Claims,
            ("resource.k8s.io", "resourceclaims") => QuotaEvaluator::Devices(classes()),
            (group, plural) => {
                let mut names = vec![counted(group, plural)];
                if group.is_empty() && SHORT.contains(&plural) {
                    names.push(plural.to_owned());
                }
                QuotaEvaluator::Count(names)
            }
        }
    }

    /// Whether what quotas call by a name is counted by it.
    pub fn tracks(&self, name: &str) -> bool {
        match self {
            QuotaEvaluator::Pods => pod::tracks(name),
            QuotaEvaluator::Services => service::tracks(name),
            QuotaEvaluator::Claims => claim::tracks(name),
            QuotaEvaluator::Devices(classes) => classes.track(name),
            QuotaEvaluator::Count(names) => names.iter().any(|own| own == name),
        }
    }

    /// What an object uses.
    // upstream: staging/src/k8s.io/apiserver/pkg/quota/v1/interfaces.go Evaluator; Usage
    pub fn measure(&self, object: &Value, now: Time, around: &impl UsageLookup) -> Totals {
        match self {
            QuotaEvaluator::Pods => pod::usage(object, now),
            QuotaEvaluator::Services => service::usage(object),
            QuotaEvaluator::Claims => claim::usage(object),
            QuotaEvaluator::Devices(classes) => classes.usage(object, now, around),
            QuotaEvaluator::Count(names) => names.iter().map(|name| (name.clone(), pieces(1))).collect(),
        }
    }

    /// What the conditions of quotas ask about an object.
    pub fn traits(&self, object: &Value) -> ScopeAttributes {
        match self {
            QuotaEvaluator::Pods => ScopeAttributes::of_pod(object),
            QuotaEvaluator::Claims => ScopeAttributes::of_claim(object),
            _ => ScopeAttributes::None,
        }
    }

    /// What the containers of an object do not say and quotas want to know.
    pub fn missing(&self, object: &Value) -> MissingConstraints {
        match self {
            QuotaEvaluator::Pods => pod::missing_constraints(object),
            _ => BTreeMap::new(),
        }
    }
}

/// The name under which the objects of a resource are counted.
fn counted(group: &str, plural: &str) -> String {
    if group.is_empty() {
        format!("count/{plural}")
    } else {
        format!("count/{plural}.{group}")
    }
}

fn pieces(count: usize) -> Quantity {
    Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi)
}

/// Whether quotas never count the objects of a resource.
// upstream: pkg/quota/v1/install/registry.go DefaultIgnoredResources
pub fn is_ignored_resource(group: &str, plural: &str) -> bool {
    matches!((group, plural), ("" | "events.k8s.io", "events"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A cluster with nothing else in it.
    struct EmptyCluster;

    impl UsageLookup for EmptyCluster {
        fn pod(&self, _: &str, _: &str) -> Option<Value> {
            None
        }

        fn device_claims(&self, _: &str) -> Vec<Value> {
            Vec::new()
        }
    }

    fn meter(group: &str, plural: &str) -> QuotaEvaluator {
        QuotaEvaluator::of(group, plural, Arc::default)
    }

    #[test]
    fn each_resource_is_counted_under_its_own_names() {
        for (group, plural, tracked, others) in [
            (
                "",
                "pods",
                &[
                    "pods",
                    "count/pods",
                    "cpu",
                    "requests.cpu",
                    "requests.example.com/gpu",
                ][..],
                &["services", "requests.storage"][..],
            ),
            (
                "",
                "services",
                &["services.nodeports", "count/services"],
                &["pods"],
            ),
            (
                "",
                "persistentvolumeclaims",
                &[
                    "requests.storage",
                    "gold.storageclass.storage.k8s.io/requests.storage",
                ],
                &["requests.cpu"],
            ),
            (
                "apps",
                "deployments",
                &["count/deployments.apps"],
                &["deployments", "count/deployments"],
            ),
            ("", "secrets", &["secrets", "count/secrets"], &["configmaps"]),
        ] {
            let meter = meter(group, plural);
            assert!(tracked.iter().all(|name| meter.tracks(name)), "{plural}");
            assert!(!others.iter().any(|name| meter.tracks(name)), "{plural}");
        }
    }

    #[test]
    fn limits_that_may_be_about_devices_are_known_without_their_classes() {
        for (name, expected) in [
            ("gpu.deviceclass.resource.k8s.io/devices", true),
            ("requests.example.com/gpu", true),
            ("count/resourceclaims.resource.k8s.io", true),
            ("count/deployments.apps", false),
            ("requests.cpu", false),
        ] {
            assert_eq!(DeviceClassIndex::may_track(name), expected, "{name}");
        }
    }

    #[test]
    fn terminated_pod_uses_object_count_only() {
        let mut pod = json!({
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]},
            "status": {"phase": "Running"},
        });
        let usage = |pod: &Value| {
            let usage = meter("", "pods").measure(pod, Time::from_unix(0, 0), &EmptyCluster);
            let of = |name: &str| usage.get(name).map(ToString::to_string);
            [of("pods"), of("requests.cpu"), of("count/pods")]
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(usage(&pod), [some("1"), some("200m"), some("1")]);
        pod["status"]["phase"] = json!("Failed");
        assert_eq!(usage(&pod), [None, None, some("1")]);
    }
}
