//! What groups pods: their owners, services, and budgets of disruption.

use std::collections::BTreeMap;

use hashbrown::HashSet;
use kubecontroller::{
    object::{MetadataOnly, SlimMeta},
    selector::LabelSelector,
};
use serde::Deserialize;

use super::SchedulerObject;
use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
    selector::Selector,
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
    selector: Option<LabelSelector>,
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
pub struct PodDisruptionBudget {
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
    pub fn of(meta: &SlimMeta, interner: &mut StringInterner) -> Option<Self> {
        let owner = meta
            .owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))?;
        Some(Owner {
            kind: interner.text(&owner.kind),
            name: interner.text(&owner.name),
        })
    }
}

impl SchedulerObject for Namespace {
    type Fields = MetadataOnly;

    fn read(meta: &SlimMeta, _: &MetadataOnly, interner: &mut StringInterner) -> Self {
        Namespace {
            name: interner.text(&meta.name),
            labels: Labels::read(meta.labels.iter(), interner),
        }
    }
}

impl SchedulerObject for Service {
    type Fields = ServiceFields;

    fn read(meta: &SlimMeta, fields: &ServiceFields, interner: &mut StringInterner) -> Self {
        let selector = fields.spec.selector.iter();
        Service {
            selector: selector
                .map(|(key, value)| (interner.text(key), interner.text(value)))
                .collect(),
            namespace: interner.text(&meta.namespace),
            name: interner.text(&meta.name),
        }
    }
}

impl SchedulerObject for ReplicaSet {
    type Fields = SelectorFields;

    fn read(meta: &SlimMeta, fields: &SelectorFields, interner: &mut StringInterner) -> Self {
        ReplicaSet {
            namespace: interner.text(&meta.namespace),
            name: interner.text(&meta.name),
            selector: Selector::read(fields.spec.selector.as_ref(), interner),
        }
    }
}

impl SchedulerObject for PodDisruptionBudget {
    type Fields = BudgetFields;

    fn read(meta: &SlimMeta, fields: &BudgetFields, interner: &mut StringInterner) -> Self {
        PodDisruptionBudget {
            namespace: interner.text(&meta.namespace),
            name: interner.text(&meta.name),
            selector: Selector::read(fields.spec.selector.as_ref(), interner),
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
