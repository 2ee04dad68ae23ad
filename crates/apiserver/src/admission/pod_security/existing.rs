//! Warns about existing pods of a namespace that violate a new enforce level.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use k3_api::strategy::Tree;
use k3_storage::Revision;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    checks,
    policy::LevelVersion,
    violation::{self, Pod},
};
use crate::{admission::resource, cache::WatchCaches};

/// How many pods are looked at, and for how long.
const MAX_CHECKED_PODS: usize = 3000;
const PATIENCE: Duration = Duration::from_secs(1);

/// Warnings about existing pods that violate a standard.
// upstream: staging/src/k8s.io/pod-security-admission/admission/admission.go EvaluatePodsInNamespace, prioritizePods, decoratePodWarnings
pub(super) fn warnings(namespace: &str, standard: LevelVersion, caches: &WatchCaches) -> Vec<String> {
    let end = Instant::now() + PATIENCE;
    let pods = resource("", "pods", caches);
    let snapshot = pods.cache.snapshot(Revision::ZERO);
    let prefix = pods.under(namespace);
    let total = snapshot.under(&prefix, None).count();
    // One pod of each controller first: the others are alike.
    let mut seen = HashSet::new();
    let mut alike = Vec::new();
    let mut checked = 0;
    // By what is wrong: the first name, and how many there are.
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let mut check = |tree: &Value| {
        let violations = checks::violations(standard, &Pod::of(tree));
        if violations.is_empty() {
            return;
        }
        let name = tree.at("metadata").text("name");
        let (first, count) = found
            .entry(violation::reasons(&violations))
            .or_insert_with(|| (name.to_owned(), 0));
        if name < first.as_str() {
            name.clone_into(first);
        }
        *count += 1;
    };
    for pod in snapshot.under(&prefix, None) {
        if checked == MAX_CHECKED_PODS || (checked > 0 && Instant::now() > end) {
            break;
        }
        let tree = pod.tree();
        let controller = controller(&tree);
        if !controller.is_empty() && !seen.insert(controller.to_owned()) {
            alike.push(pod);
            continue;
        }
        check(&tree);
        checked += 1;
    }
    for pod in alike {
        if checked == MAX_CHECKED_PODS || Instant::now() > end {
            break;
        }
        check(&pod.tree());
        checked += 1;
    }
    format_warnings(namespace, standard, &found, checked, total)
}

fn format_warnings(
    namespace: &str,
    standard: LevelVersion,
    found: &BTreeMap<String, (String, usize)>,
    checked: usize,
    total: usize,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if checked < total {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{standard}\""
        ));
    }
    let mut pods: Vec<_> = found
        .iter()
        .map(|(reasons, (name, count))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            _ => format!("{name} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    pods.sort();
    warnings.extend(pods);
    warnings
}

/// The uid of the controller of a pod; empty if it has none.
fn controller(pod: &Value) -> &str {
    let mut owners = pod.at("metadata").items("ownerReferences").iter();
    owners
        .find(|owner| owner.flag("controller"))
        .map_or("", |owner| owner.text("uid"))
}
