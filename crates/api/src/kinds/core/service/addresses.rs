//! Which addresses are to be given to a service, and which it gives back.

use serde_json::{Value, json};

use super::{EXTERNAL_NAME, NONE, families::Family, kind, settlement::stays_as_it_is};
use crate::strategy::{Tree, TreeMut};

/// An address a service is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its place in the list of them.
    pub index: usize,
    /// Its family.
    pub family: Family,
    /// The one the user wants; `None` if any will do.
    pub wanted: Option<String>,
}

/// What changes about the addresses of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressChanges {
    /// Addresses to give it.
    pub take: Vec<Address>,
    /// Addresses it gives back once the change is stored.
    pub release: Vec<String>,
}

/// What changes about the addresses of a service that is settled. Without an old one it is new; without a new one,
/// `None`, it goes.
pub fn addresses(new: Option<&Value>, old: Option<&Value>) -> AddressChanges {
    match (new, old) {
        (Some(new), None) => AddressChanges {
            take: all_of(new),
            ..AddressChanges::default()
        },
        (None, Some(old)) => AddressChanges {
            release: held_by(old),
            ..AddressChanges::default()
        },
        (Some(new), Some(old)) => change(new, old),
        (None, None) => AddressChanges::default(),
    }
}

/// Writes an address that was given to a service into it.
pub fn put_address(service: &mut Value, index: usize, address: &str) {
    let spec = service.ensure_object("spec");
    let mut list = spec.items("clusterIPs").to_vec();
    if list.len() <= index {
        list.resize(index + 1, json!(""));
    }
    list[index] = json!(address);
    spec.set("clusterIPs", list);
    if index == 0 {
        spec.set("clusterIP", address);
    }
}

fn change(new: &Value, old: &Value) -> AddressChanges {
    let mut changes = AddressChanges::default();
    if stays_as_it_is(new, old) {
        return changes;
    }
    match (kind(old) == EXTERNAL_NAME, kind(new) == EXTERNAL_NAME) {
        (true, false) => changes.take = all_of(new),
        (false, true) => changes.release = held_by(old),
        (true, true) => {}
        (false, false) => {
            let held = held_by(old);
            if held.is_empty() {
                return changes;
            }
            let families = |service: &Value| service.at("spec").items("ipFamilies").len();
            match (families(old), families(new)) {
                (1, 2) => changes.take = all_of(new).into_iter().skip(1).collect(),
                (2, 1) => changes.release = held.into_iter().skip(1).collect(),
                _ => {}
            }
        }
    }
    changes
}

/// An address for each family.
fn all_of(service: &Value) -> Vec<Address> {
    let spec = service.at("spec");
    if kind(service) == EXTERNAL_NAME || spec.texts("clusterIPs").next() == Some(NONE) {
        return Vec::new();
    }
    let given: Vec<_> = spec.texts("clusterIPs").collect();
    spec.texts("ipFamilies")
        .filter_map(Family::named)
        .enumerate()
        .map(|(index, family)| Address {
            index,
            family,
            wanted: given
                .get(index)
                .filter(|ip| !ip.is_empty())
                .map(|ip| (*ip).to_owned()),
        })
        .collect()
}

fn held_by(service: &Value) -> Vec<String> {
    if kind(service) == EXTERNAL_NAME {
        return Vec::new();
    }
    let held = service.at("spec").texts("clusterIPs");
    held.filter(|ip| !ip.is_empty() && *ip != NONE)
        .map(str::to_owned)
        .collect()
}
