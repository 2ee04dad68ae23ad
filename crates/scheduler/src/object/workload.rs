//! What groups pods: their owners, services, and budgets of disruption.

use std::collections::BTreeMap;

use hashbrown::HashSet;
use kubecontroller::object::{MetadataOnly, SlimMeta};
use serde::Deserialize;

use super::Kept;
use crate::{
    labels::Labels,
    pool::{Pools, Text},
    selector::{RawSelector, Selector},
};

/// Who controls an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its kind.
    pub kind: Text,
    /// Its name.
    pub name: Text,
}

/// What is read of a `ReplicaSet` or a `StatefulSet`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SelectorFields {
    spec: RawSelectorSpec,
}

/// The part of a specification that selects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawSelectorSpec {
    selector: Option<RawSelector>,
}

/// What is read of a Service or a `ReplicationController`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceFields {
    spec: RawServiceSpec,
}

/// The part of a specification that selects by labels alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawServiceSpec {
    selector: BTreeMap<String, String>,
}

/// What is read of a budget of disruption.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BudgetFields {
    spec: RawSelectorSpec,
    status: RawBudgetStatus,
}

/// The status of a budget as far as scheduling reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawBudgetStatus {
    disruptions_allowed: i64,
    disrupted_pods: BTreeMap<String, String>,
}

/// A namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Its name.
    pub name: Text,
    /// Its labels.
    pub labels: Labels,
}

/// A Service or a `ReplicationController`: what selects by labels alone.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its pods.
    pub selector: BTreeMap<Text, Text>,
}

/// A `ReplicaSet` or a `StatefulSet`.
#[derive(Clone, Debug)]
pub struct ReplicaSet {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its pods.
    pub selector: Selector,
}

/// A budget of disruption.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Where it counts.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its pods.
    pub selector: Selector,
    /// How many may go.
    pub allowed: i64,
    /// Those that are about to go.
    pub disrupted: HashSet<Box<str>>,
}

impl Owner {
    /// Who controls an object with this metadata.
    pub fn of(meta: &SlimMeta, pools: &mut Pools) -> Option<Self> {
        let owner = meta
            .owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))?;
        Some(Owner {
            kind: pools.text(&owner.kind),
            name: pools.text(&owner.name),
        })
    }
}

impl Kept for Namespace {
    type Fields = MetadataOnly;

    fn read(meta: &SlimMeta, _: &MetadataOnly, pools: &mut Pools) -> Self {
        Namespace {
            name: pools.text(&meta.name),
            labels: Labels::read(meta.labels.iter(), pools),
        }
    }
}

impl Kept for Service {
    type Fields = ServiceFields;

    fn read(meta: &SlimMeta, fields: &ServiceFields, pools: &mut Pools) -> Self {
        let selector = fields.spec.selector.iter();
        Service {
            selector: selector
                .map(|(key, value)| (pools.text(key), pools.text(value)))
                .collect(),
            namespace: pools.text(&meta.namespace),
            name: pools.text(&meta.name),
        }
    }
}

impl Kept for ReplicaSet {
    type Fields = SelectorFields;

    fn read(meta: &SlimMeta, fields: &SelectorFields, pools: &mut Pools) -> Self {
        ReplicaSet {
            namespace: pools.text(&meta.namespace),
            name: pools.text(&meta.name),
            selector: Selector::read(fields.spec.selector.as_ref(), pools),
        }
    }
}

impl Kept for Budget {
    type Fields = BudgetFields;

    fn read(meta: &SlimMeta, fields: &BudgetFields, pools: &mut Pools) -> Self {
        Budget {
            namespace: pools.text(&meta.namespace),
            name: pools.text(&meta.name),
            selector: Selector::read(fields.spec.selector.as_ref(), pools),
            allowed: fields.status.disruptions_allowed,
            disrupted: fields
                .status
                .disrupted_pods
                .keys()
                .map(|name| name.as_str().into())
                .collect(),
        }
    }
}
