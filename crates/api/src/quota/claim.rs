//! Quota usage of a PersistentVolumeClaim, in total and by storage class.

// upstream: pkg/quota/v1/evaluator/core/persistent_volume_claims.go Usage, getStorageUsage, V1ResourceByStorageClass

use serde_json::Value;

use super::pieces;
use crate::{
    kinds::{pod_amounts::Totals, storage_class_of},
    quantity::Quantity,
    strategy::Tree,
};

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// What stands between the name of a class and what is used of it.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

pub(super) fn tracks(name: &str) -> bool {
    let name = match name.rsplit_once(OF_CLASS) {
        Some((_, of_class)) => of_class,
        None if name == COUNT => return true,
        None => name,
    };
    name == CLAIMS || name == STORAGE
}

pub(super) fn usage(claim: &Value) -> Totals {
    let mut usage = Totals::new();
    usage.insert(COUNT.to_owned(), pieces(1));
    let class = storage_class_of(claim);
    let mut charge = |name: &str, amount: &Quantity| {
        usage.insert(name.to_owned(), amount.clone());
        if !class.is_empty() {
            usage.insert(format!("{class}{OF_CLASS}{name}"), amount.clone());
        }
    };
    charge(CLAIMS, &pieces(1));
    if let Some(size) = size(claim) {
        charge(STORAGE, &size);
    }
    usage
}

/// The size in whole bytes: as asked for, or as given if that is more.
fn size(claim: &Value) -> Option<Quantity> {
    let read = |amounts: &Value| {
        let amount = amounts.at("storage");
        if amount.is_null() {
            return None;
        }
        let mut amount = Quantity::from_value(amount).ok()?;
        amount.round_up(0);
        Some(amount)
    };
    let asked = read(claim.at_path("spec.resources.requests"))?;
    let given = read(claim.at_path("status.allocatedResources"));
    Some(given.filter(|given| *given > asked).unwrap_or(asked))
}
