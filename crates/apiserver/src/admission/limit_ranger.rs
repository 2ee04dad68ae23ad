//! `LimitRanger`: sets the default requests and limits of a namespace, and rejects objects outside its minimum and maximum.

use std::collections::HashSet;

use k3_api::{
    kinds::pod_amounts::{self, Totals},
    quantity::Quantity,
    status::Status,
    strategy::{Tree, TreeMut},
};
use serde_json::{Map, Value};

use super::{
    AdmissionAttributes, AdmissionPlugin, Operation, derived_cache::NamespacedDerivedCache, resource,
};
use crate::cache::WatchCaches;

/// Where it is written down what was set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The largest amount whose thousandths can be compared.
const MAX_MILLI: i64 = i64::MAX / 1000;

#[derive(Default)]
pub(super) struct LimitRanger {
    /// The limit ranges of a namespace.
    known: NamespacedDerivedCache<Vec<LimitRange>>,
}

/// A parsed `LimitRange`.
struct LimitRange {
    limits: Vec<LimitRangeItem>,
    /// What containers get that say nothing themselves, as text.
    default_requests: Map<String, Value>,
    default_limits: Map<String, Value>,
}

/// The limits of one type: `Container`, `Pod` or `PersistentVolumeClaim`.
struct LimitRangeItem {
    of: String,
    min: Totals,
    max: Totals,
    ratio: Totals,
}

/// The requests and limits of a container, a pod or a claim.
#[derive(Default)]
struct ResourceRequests {
    requests: Totals,
    limits: Totals,
}

// upstream: plugin/pkg/admission/limitranger/admission.go Admit, Validate, SupportsAttributes
impl AdmissionPlugin for LimitRanger {
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        if concerns(attributes) && attributes.is_of("", "pods") {
            let ranges = self.ranges(attributes, caches);
            for range in ranges.iter().flat_map(|ranges| ranges.iter()) {
                range.fill(attributes.object);
            }
        }
        Ok(())
    }

    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        if !concerns(attributes) {
            return Ok(());
        }
        let ranges = self.ranges(attributes, caches);
        for range in ranges.iter().flat_map(|ranges| ranges.iter()) {
            let mut errors = Vec::new();
            if attributes.is_of("", "pods") {
                range.validate_pod(attributes.object.at("spec"), &mut errors);
            } else {
                range.validate_claim(attributes.object.at("spec"), &mut errors);
            }
            if let Some(why) = aggregate(errors) {
                return Err(attributes.forbidden(why));
            }
        }
        Ok(())
    }
}

/// Whether limit ranges apply: to new pods, resized pods and claims. Terminating objects are exempt.
fn concerns(attributes: &AdmissionAttributes<'_>) -> bool {
    let is_terminating = |old: &Value| old.at("metadata").has("deletionTimestamp");
    let is_pod = attributes.is_of("", "pods");
    let is_claim = attributes.is_of("", "persistentvolumeclaims");
    let concerns = match (attributes.operation, attributes.subresource) {
        (Operation::Create, "") => is_pod || is_claim,
        (Operation::Update, "") => is_claim,
        (Operation::Update, "resize") => is_pod,
        _ => false,
    };
    concerns && !attributes.old.is_some_and(is_terminating)
}

/// All faults as one text, each once.
fn aggregate(errors: Vec<String>) -> Option<String> {
    let mut known = HashSet::new();
    let mut unique = errors;
    unique.retain(|error| known.insert(error.clone()));
    match unique.as_slice() {
        [] => None,
        [error] => Some(error.clone()),
        _ => Some(format!("[{}]", unique.join(", "))),
    }
}

// --- LimitRanger ---

impl LimitRanger {
    /// What the limit ranges of the namespace say; `None` if it has none.
    fn ranges(
        &self,
        attributes: &AdmissionAttributes<'_>,
        caches: &WatchCaches,
    ) -> Option<std::sync::Arc<Vec<LimitRange>>> {
        let ranges = resource("", "limitranges", caches);
        self.known.get(&ranges, attributes.namespace, |objects| {
            objects.iter().map(LimitRange::read).collect()
        })
    }
}

// --- LimitRange ---

impl LimitRange {
    fn read(object: &Value) -> Self {
        let limits = object.at("spec").items("limits");
        let defaults = |field: &str| {
            let mut all = Map::new();
            for limit in limits.iter().filter(|limit| limit.text("type") == "Container") {
                all.extend(limit.entries(field).clone());
            }
            all
        };
        let bounds = |limit: &Value, field: &str| pod_amounts::amounts(limit.entries(field));
        LimitRange {
            default_requests: defaults("defaultRequest"),
            default_limits: defaults("default"),
            limits: limits
                .iter()
                .map(|limit| LimitRangeItem {
                    of: limit.text("type").to_owned(),
                    min: bounds(limit, "min"),
                    max: bounds(limit, "max"),
                    ratio: bounds(limit, "maxLimitRequestRatio"),
                })
                .collect(),
        }
    }

    /// Gives the containers of a pod what they do not say themselves.
    fn fill(&self, pod: &mut Value) {
        let mut done = Vec::new();
        let spec = pod.ensure_object("spec");
        for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
            for container in spec.items_mut(list) {
                let name = container.text("name").to_owned();
                let limits = fill(container, "limits", &self.default_limits);
                let requests = fill(container, "requests", &self.default_requests);
                for (set, what) in [(requests, "request"), (limits, "limit")] {
                    if !set.is_empty() {
                        done.push(format!("{} {what} for {word} {name}", set.join(", ")));
                    }
                }
            }
        }
        if !done.is_empty() {
            let text = format!("LimitRanger plugin set: {}", done.join("; "));
            pod.ensure_object("metadata")
                .ensure_object("annotations")
                .set(ANNOTATION, text);
        }
    }

    // upstream: plugin/pkg/admission/limitranger/admission.go PodValidateLimitFunc
    fn validate_pod(&self, spec: &Value, errors: &mut Vec<String>) {
        for limit in &self.limits {
            match limit.of.as_str() {
                "Container" => {
                    for list in ["containers", "initContainers"] {
                        for container in spec.items(list) {
                            limit.validate(&ResourceRequests::of(container), errors);
                        }
                    }
                }
                "Pod" => limit.validate(&ResourceRequests::of_pod(spec), errors),
                _ => {}
            }
        }
    }

    // upstream: plugin/pkg/admission/limitranger/admission.go PersistentVolumeClaimValidateLimitFunc
    fn validate_claim(&self, spec: &Value, errors: &mut Vec<String>) {
        let asked = ResourceRequests {
            limits: Totals::new(),
            ..ResourceRequests::of(spec)
        };
        for limit in &self.limits {
            if limit.of == "PersistentVolumeClaim" {
                errors.extend(
                    limit
                        .min
                        .iter()
                        .filter_map(|(name, min)| limit.below(name, min, &asked)),
                );
                errors.extend(
                    limit
                        .max
                        .iter()
                        .filter_map(|(name, max)| limit.request_above(name, max, &asked)),
                );
            }
        }
    }
}

/// Sets what a container does not say of its requests or limits. Gives the names of what was set.
fn fill(container: &mut Value, field: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let said = container.at("resources").entries(field);
    let mut missing: Vec<_> = defaults
        .keys()
        .filter(|name| !said.contains_key(*name))
        .cloned()
        .collect();
    if missing.is_empty() {
        return missing;
    }
    missing.sort();
    let list = container.ensure_object("resources").ensure_object(field);
    for name in &missing {
        list.set(name, defaults[name].clone());
    }
    missing
}

// --- LimitRangeItem ---

impl LimitRangeItem {
    fn validate(&self, asked: &ResourceRequests, errors: &mut Vec<String>) {
        errors.extend(
            self.min
                .iter()
                .filter_map(|(name, min)| self.below(name, min, asked)),
        );
        errors.extend(
            self.max
                .iter()
                .filter_map(|(name, max)| self.above(name, max, asked)),
        );
        errors.extend(
            self.ratio
                .iter()
                .filter_map(|(name, max)| self.apart(name, max, asked)),
        );
    }

    /// Why something is less than the least.
    // upstream: plugin/pkg/admission/limitranger/admission.go minConstraint
    fn below(&self, name: &str, min: &Quantity, asked: &ResourceRequests) -> Option<String> {
        let (request, limit) = asked.get(name);
        let begin = format!("minimum {name} usage per {} is {min}", self.of);
        let Some(request) = request else {
            return Some(format!("{begin}.  No request is specified"));
        };
        let [requested, limited, bound] = comparable([Some(request), limit, Some(min)]);
        if requested < bound {
            return Some(format!("{begin}, but request is {request}"));
        }
        limit
            .filter(|_| limited < bound)
            .map(|limit| format!("{begin}, but limit is {limit}"))
    }

    /// Why something is more than the most.
    // upstream: plugin/pkg/admission/limitranger/admission.go maxConstraint
    fn above(&self, name: &str, max: &Quantity, asked: &ResourceRequests) -> Option<String> {
        let (request, limit) = asked.get(name);
        let begin = format!("maximum {name} usage per {} is {max}", self.of);
        let Some(limit) = limit else {
            return Some(format!("{begin}.  No limit is specified"));
        };
        let [requested, limited, bound] = comparable([request, Some(limit), Some(max)]);
        if limited > bound {
            return Some(format!("{begin}, but limit is {limit}"));
        }
        request
            .filter(|_| requested > bound)
            .map(|request| format!("{begin}, but request is {request}"))
    }

    /// Why something without limits is more than the most.
    // upstream: plugin/pkg/admission/limitranger/admission.go maxRequestConstraint
    fn request_above(&self, name: &str, max: &Quantity, asked: &ResourceRequests) -> Option<String> {
        let begin = format!("maximum {name} usage per {} is {max}", self.of);
        let Some(request) = asked.requests.get(name) else {
            return Some(format!("{begin}.  No request is specified"));
        };
        let [requested, bound] = comparable([Some(request), Some(max)]);
        (requested > bound).then(|| format!("{begin}, but request is {request}"))
    }

    /// Why the limit is too many times the request.
    #[expect(
        clippy::cast_precision_loss,
        reason = "the ratio is reported and compared as a fraction"
    )]
    // upstream: plugin/pkg/admission/limitranger/admission.go limitRequestRatioConstraint
    fn apart(&self, name: &str, max: &Quantity, asked: &ResourceRequests) -> Option<String> {
        let (request, limit) = asked.get(name);
        let begin = format!("{name} max limit to request ratio per {} is {max}", self.of);
        let [requested, limited, _] = comparable([request, limit, Some(max)]);
        if request.is_none() || requested == 0 {
            return Some(format!("{begin}, but no request is specified or request is 0"));
        }
        if limit.is_none() || limited == 0 {
            return Some(format!("{begin}, but no limit is specified or limit is 0"));
        }
        let ratio = limited as f64 / requested as f64;
        let is_above = if max.value() <= MAX_MILLI {
            ratio * 1000.0 > max.milli_value() as f64
        } else {
            ratio > max.value() as f64
        };
        is_above.then(|| format!("{begin}, but provided ratio is {ratio:.6}"))
    }
}

/// Amounts in thousandths, or in whole units if one of them is too large for that. What is not there is nothing.
// upstream: plugin/pkg/admission/limitranger/admission.go requestLimitEnforcedValues
fn comparable<const N: usize>(amounts: [Option<&Quantity>; N]) -> [i64; N] {
    let fits = amounts.iter().flatten().all(|amount| amount.value() <= MAX_MILLI);
    amounts.map(|amount| match amount {
        Some(amount) if fits => amount.milli_value(),
        Some(amount) => amount.value(),
        None => 0,
    })
}

// --- ResourceRequests ---

impl ResourceRequests {
    /// What a container or a claim asks for.
    fn of(object: &Value) -> Self {
        let list = |field: &str| pod_amounts::amounts(object.at("resources").entries(field));
        ResourceRequests {
            requests: list("requests"),
            limits: list("limits"),
        }
    }

    /// The requests and limits of a pod: pod-level resources where set, else the sum of its containers.
    fn of_pod(spec: &Value) -> Self {
        let total = |of: &str| {
            let mut total = pod_amounts::totals(spec, of);
            let own = pod_amounts::amounts(spec.at("resources").entries(of));
            total.extend(
                own.into_iter()
                    .filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")),
            );
            total
        };
        ResourceRequests {
            requests: total("requests"),
            limits: total("limits"),
        }
    }

    fn get(&self, name: &str) -> (Option<&Quantity>, Option<&Quantity>) {
        (self.requests.get(name), self.limits.get(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    async fn world(limits: Value) -> TestCluster {
        let world = TestCluster::new().await;
        world
            .put(json!({
                "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "n"},
                "spec": {"limits": limits},
            }))
            .await;
        world
    }

    fn pod(spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": spec})
    }

    fn container(requests: &Value, limits: &Value) -> Value {
        json!({"containers": [{"name": "c", "resources": {"requests": requests, "limits": limits}}]})
    }

    fn rejection(world: &TestCluster, spec: &Value) -> String {
        let refused = world.admit(&LimitRanger::default(), pod(spec));
        let why = refused.err().unwrap_or_default();
        why.replace("pods \"p\" is forbidden: ", "")
    }

    #[tokio::test]
    async fn sets_default_requests_and_limits_and_annotates_pod() {
        let world = world(json!([
            {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}},
            {"type": "Pod", "default": {"x": "1"}},
        ]))
        .await;
        let made = world
            .admit(
                &LimitRanger::default(),
                pod(&json!({
                    "containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}, {"name": "b", "resources": {
                        "limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "2"},
                    }}],
                    "initContainers": [{"name": "i"}],
                })),
            )
            .unwrap();
        assert_eq!(
            made.at("spec"),
            &json!({
                "containers": [
                    {"name": "a", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "100m"}}},
                    {"name": "b", "resources": {"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "2"}}},
                ],
                "initContainers": [
                    {"name": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}}},
                ],
            })
        );
        assert_eq!(
            made.at_path("metadata.annotations").at(ANNOTATION),
            "LimitRanger plugin set: cpu request for container a; memory limit for container a; cpu request for init container \
             i; cpu, memory limit for init container i"
        );
    }

    #[tokio::test]
    async fn enforces_container_min_max_and_ratio() {
        let world = world(json!([
            {"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "2"}},
        ]))
        .await;
        for (requests, limits, why) in [
            (json!({"cpu": "500m"}), json!({"cpu": "1"}), ""),
            (
                json!({"cpu": "50m"}),
                json!({"cpu": "100m"}),
                "minimum cpu usage per Container is 100m, but request is 50m",
            ),
            (
                json!({"cpu": "1"}),
                json!({"cpu": "2"}),
                "maximum cpu usage per Container is 1, but limit is 2",
            ),
            (
                json!({"cpu": "300m"}),
                json!({"cpu": "1"}),
                "cpu max limit to request ratio per Container is 2, but provided ratio is 3.333333",
            ),
            (
                json!({"cpu": "1"}),
                json!({}),
                "[maximum cpu usage per Container is 1.  No limit is specified, cpu max limit to request ratio per Container is 2, \
                 but no limit is specified or limit is 0]",
            ),
            (
                json!({}),
                json!({"cpu": "1"}),
                "[minimum cpu usage per Container is 100m.  No request is specified, cpu max limit to request ratio per Container \
                 is 2, but no request is specified or request is 0]",
            ),
        ] {
            assert_eq!(rejection(&world, &container(&requests, &limits)), why);
        }
    }

    #[tokio::test]
    async fn enforces_pod_limits_from_containers_or_pod_resources() {
        let world = world(json!([{"type": "Pod", "max": {"cpu": "1"}}])).await;
        let limits = |cpu: &str| json!({"resources": {"limits": {"cpu": cpu}}});
        let mut two = json!({"containers": [limits("600m"), limits("600m")]});
        let why = "maximum cpu usage per Pod is 1, but limit is 1200m";
        assert_eq!(rejection(&world, &two), why);
        two["resources"] = limits("1").at("resources").clone();
        assert_eq!(rejection(&world, &two), "");
    }

    #[tokio::test]
    async fn validates_only_create_and_resize() {
        let world = world(json!([{"type": "Container", "max": {"cpu": "1"}}])).await;
        let old = pod(&container(&json!({}), &json!({"cpu": "1"})));
        let new = pod(&container(&json!({}), &json!({"cpu": "2"})));
        let plugin = LimitRanger::default();
        let update = |part: &str, old: &Value| world.update_part(&plugin, part, new.clone(), old);
        assert!(update("", &old).is_ok());
        assert!(update("status", &old).is_ok());
        assert!(update("resize", &old).is_err());
        let mut terminating = old;
        terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(update("resize", &terminating).is_ok());
    }

    #[tokio::test]
    async fn cached_limit_ranges_follow_changes() {
        let world = world(json!([{"type": "Container", "default": {"cpu": "1"}}])).await;
        let plugin = LimitRanger::default();
        let limits = |world: &TestCluster| {
            let made = world
                .admit(&plugin, pod(&json!({"containers": [{"name": "c"}]})))
                .unwrap();
            made.at("spec").items("containers")[0]
                .at("resources")
                .at("limits")
                .clone()
        };
        for _ in 0..2 {
            assert_eq!(limits(&world), json!({"cpu": "1"}));
        }
        world
            .put(json!({
                "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "m", "namespace": "n"},
                "spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]},
            }))
            .await;
        assert_eq!(limits(&world), json!({"cpu": "1", "memory": "1Gi"}));
    }

    #[tokio::test]
    async fn enforces_claim_storage_limits() {
        let world = world(json!([
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}},
        ]))
        .await;
        for (size, why) in [
            ("5Gi", ""),
            (
                "6Gi",
                "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi",
            ),
            (
                "500Mi",
                "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi",
            ),
        ] {
            let claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "n"},
                "spec": {"resources": {"requests": {"storage": size}}},
            });
            let refused = world
                .admit(&LimitRanger::default(), claim)
                .err()
                .unwrap_or_default();
            assert_eq!(
                refused.replace("persistentvolumeclaims \"c\" is forbidden: ", ""),
                why
            );
        }
    }
}
