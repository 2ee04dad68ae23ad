//! Quota usage of a ResourceClaim, by device class.

// upstream: pkg/quota/v1/evaluator/core/resource_claims.go Usage, V1ResourceByDeviceClass, addExtendedResourceQuota

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::{
    REQUESTS, UsageLookup, pieces,
    pod::{self, is_extended},
};
use crate::{kinds::pod_amounts::Totals, strategy::Tree, time::Time};

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
/// What follows the name of a class.
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The prefix of a class that is requested like any other resource.
const AS_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";
/// Marks the claim that was made for the extended resources of a pod.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";
/// The maximum number of devices of a claim: the count of a request for `All` of them.
const MAX_DEVICES_PER_REQUEST: usize = 32;

/// The classes of devices, and the extended resources they are known as.
#[derive(Debug, Default)]
pub struct DeviceClassIndex {
    /// By class.
    resources: HashMap<String, String>,
    /// All names by which classes are asked for.
    names: HashSet<String>,
}

// --- DeviceClassIndex ---

impl DeviceClassIndex {
    /// Reads the classes of a cluster.
    pub fn read<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut classes = DeviceClassIndex::default();
        for object in objects {
            let name = object.at("metadata").text("name");
            let resource = object.at("spec").text("extendedResourceName");
            if !resource.is_empty() {
                classes.resources.insert(name.to_owned(), resource.to_owned());
                classes.names.insert(resource.to_owned());
            }
            classes.names.insert(format!("{AS_RESOURCE}{name}"));
        }
        classes
    }

    /// Whether quotas may mean claims of devices by a name, whatever classes there are.
    pub fn may_track(name: &str) -> bool {
        name == COUNT || (name.contains('/') && !name.starts_with("count/"))
    }

    pub(super) fn track(&self, name: &str) -> bool {
        name == COUNT
            || name.ends_with(OF_CLASS)
            || name
                .strip_prefix(REQUESTS)
                .is_some_and(|of| is_extended(of) && self.names.contains(of))
    }

    pub(super) fn usage(&self, claim: &Value, now: Time, around: &impl UsageLookup) -> Totals {
        let mut usage = Totals::from([(COUNT.to_owned(), pieces(1))]);
        let mut extended = Totals::new();
        for (class, count) in devices(claim) {
            let amount = pieces(count);
            usage.insert(format!("{class}{OF_CLASS}"), amount.clone());
            if class.is_empty() {
                continue;
            }
            if let Some(resource) = self.resources.get(class) {
                extended.insert(format!("{REQUESTS}{resource}"), amount.clone());
            }
            extended.insert(format!("{REQUESTS}{AS_RESOURCE}{class}"), amount);
        }
        // What the pod of the claim is charged for already is not charged twice.
        let paid = pod_usage(claim, now, around);
        for (name, mut amount) in extended {
            if let Some(paid) = paid.get(&name) {
                amount.sub(paid);
            }
            if amount.sign().is_gt() {
                usage.insert(name, amount);
            }
        }
        usage
    }
}

/// How many devices of each class a claim may get at most.
fn devices(claim: &Value) -> BTreeMap<&str, usize> {
    let count = |request: &Value| match request.text("allocationMode") {
        "ExactCount" => usize::try_from(request.int_or_zero("count")).unwrap_or_default(),
        "All" => MAX_DEVICES_PER_REQUEST,
        _ => 0,
    };
    let mut total = BTreeMap::new();
    for request in claim.at_path("spec.devices").items("requests") {
        let choices = request.items("firstAvailable");
        let mut max_by_class: BTreeMap<&str, usize> = BTreeMap::new();
        let exactly = request.has("exactly").then(|| request.at("exactly"));
        for choice in choices.iter().chain(exactly.filter(|_| choices.is_empty())) {
            let of_class = max_by_class.entry(choice.text("deviceClassName")).or_default();
            *of_class = count(choice).max(*of_class);
        }
        for (class, count) in max_by_class {
            *total.entry(class).or_default() += count;
        }
    }
    total
}

/// What the pod uses whose extended resources a claim is for; nothing if it is for none.
fn pod_usage(claim: &Value, now: Time, around: &impl UsageLookup) -> Totals {
    owner(claim, around).map_or_else(Totals::new, |pod| pod::usage(&pod, now))
}

fn owner(claim: &Value, around: &impl UsageLookup) -> Option<Value> {
    let metadata = claim.at("metadata");
    let uid = owner_uid(claim)?;
    let mut owners = metadata.items("ownerReferences").iter();
    let name = owners.find(|owner| owner.flag("controller"))?.text("name");
    let namespace = metadata.text("namespace");
    let pod = around.pod(namespace, name)?;
    if pod.at("metadata").text("uid") != uid {
        return None;
    }
    let made_for = pod.at("status").at("extendedResourceClaimStatus");
    if !made_for.is_null() {
        return (made_for.text("resourceClaimName") == metadata.text("name")).then_some(pod);
    }
    // The pod does not say yet which claim is its own: the first one is.
    let age = |claim: &Value| {
        let metadata = claim.at("metadata");
        let text = |field: &str| metadata.text(field).to_owned();
        (text("creationTimestamp"), text("name"))
    };
    let claims = around.device_claims(namespace);
    let is_first = claims
        .iter()
        .filter(|other| owner_uid(other) == Some(uid))
        .all(|other| age(other) >= age(claim));
    is_first.then_some(pod)
}

/// The uid of the pod whose extended resources a claim is for.
fn owner_uid(claim: &Value) -> Option<&str> {
    let metadata = claim.at("metadata");
    let is_extended = metadata.at("annotations").text(EXTENDED) == "true";
    let mut owners = metadata.items("ownerReferences").iter();
    owners
        .find(|owner| owner.flag("controller"))
        .filter(|owner| is_extended && owner.text("kind") == "Pod" && owner.text("apiVersion") == "v1")
        .map(|owner| owner.text("uid"))
}
