//! What an object uses, by the names that quotas have for it.

mod claim;
mod device;
mod pod;
mod service;

use std::{collections::BTreeMap, sync::Arc};

use k3_api::{
    kinds::pod_amounts::Totals,
    quantity::{Format, Quantity},
    time::Time,
};
use serde_json::Value;

use super::scope::{Traits, is_terminating};
use crate::{
    admission::{Attributes, Operation},
    cache::Caches,
};

pub(super) use self::{
    device::Classes,
    pod::{Missing, missing},
};

/// What counts the objects of a resource.
pub(super) enum Meter {
    Pods,
    Services,
    Claims,
    Devices(Arc<Classes>),
    /// Others are counted, under these names.
    Count(Vec<String>),
}

/// Resources that quotas also know by a short name.
const SHORT: [&str; 4] = [
    "configmaps",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
];

const REQUESTS: &str = "requests.";

// --- Meter ---

impl Meter {
    /// What counts what is asked; `None` if it cannot change any count.
    pub(super) fn of(attributes: &Attributes<'_>, classes: impl FnOnce() -> Arc<Classes>) -> Option<Self> {
        let kind = &attributes.resource.kind;
        let creates = attributes.operation == Operation::Create;
        let is_whole = attributes.subresource.is_empty();
        let part = attributes.subresource;
        match (&*kind.group, &*kind.plural) {
            ("", "pods") => {
                let begins_to_end = || {
                    attributes
                        .old
                        .is_some_and(|old| is_terminating(old) != is_terminating(attributes.object))
                };
                let counts = (is_whole && (creates || begins_to_end())) || (!creates && part == "resize");
                counts.then_some(Meter::Pods)
            }
            ("", "services") => is_whole.then_some(Meter::Services),
            ("", "persistentvolumeclaims") => {
                (is_whole || (!creates && part == "status")).then_some(Meter::Claims)
            }
            ("resource.k8s.io", "resourceclaims") => is_whole.then(|| Meter::Devices(classes())),
            (group, plural) => (is_whole && creates).then(|| {
                let mut names = vec![counted(group, plural)];
                if group.is_empty() && SHORT.contains(&plural) {
                    names.push(plural.to_owned());
                }
                Meter::Count(names)
            }),
        }
    }

    /// Whether what quotas call by a name is counted by it.
    pub(super) fn tracks(&self, name: &str) -> bool {
        match self {
            Meter::Pods => pod::tracks(name),
            Meter::Services => service::tracks(name),
            Meter::Claims => claim::tracks(name),
            Meter::Devices(classes) => classes.track(name),
            Meter::Count(names) => names.iter().any(|own| own == name),
        }
    }

    /// What an object uses.
    pub(super) fn measure(&self, object: &Value, now: Time, caches: &Caches) -> Totals {
        match self {
            Meter::Pods => pod::usage(object, now),
            Meter::Services => service::usage(object),
            Meter::Claims => claim::usage(object),
            Meter::Devices(classes) => classes.usage(object, now, caches),
            Meter::Count(names) => names.iter().map(|name| (name.clone(), pieces(1))).collect(),
        }
    }

    /// What the conditions of quotas ask about an object.
    pub(super) fn traits(&self, object: &Value) -> Traits {
        match self {
            Meter::Pods => Traits::of_pod(object),
            Meter::Claims => Traits::of_claim(object),
            _ => Traits::None,
        }
    }

    /// What the containers of an object do not say and quotas want to know.
    pub(super) fn missing(&self, object: &Value) -> Missing {
        match self {
            Meter::Pods => missing(object),
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
