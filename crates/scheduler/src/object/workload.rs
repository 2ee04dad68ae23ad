//! What groups pods: their owners, services, and budgets of disruption.

use std::collections::BTreeMap;

use hashbrown::HashSet;
use k3_workloads::ObjectMeta;
use kubecontroller::{
    object::{MetadataOnly, SlimObject},
    selector::Selector,
};
use serde::Deserialize;

use super::SchedulerObject;
use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
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
    selector: Option<Selector>,
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
    /// Its pods; all of them if it has no selector.
    pub selector: Selector,
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
    pub fn of(meta: &ObjectMeta, interner: &mut StringInterner) -> Option<Self> {
        let owner = meta.controller()?;
        Some(Owner {
            kind: interner.text(&owner.kind),
            name: interner.text(&owner.name),
        })
    }
}

impl SchedulerObject for Namespace {
    type Source = SlimObject<MetadataOnly>;

    fn read(source: &SlimObject<MetadataOnly>, interner: &mut StringInterner) -> Self {
        let meta = &source.metadata;
        Namespace {
            name: interner.text(&meta.name),
            labels: Labels::read(meta.labels.iter(), interner),
        }
    }
}

impl SchedulerObject for Service {
    type Source = SlimObject<ServiceFields>;

    fn read(source: &SlimObject<ServiceFields>, interner: &mut StringInterner) -> Self {
        let SlimObject {
            metadata: meta,
            fields,
        } = source;
        Service {
            selector: Selector::from_labels(&fields.spec.selector),
            namespace: interner.text(&meta.namespace),
            name: interner.text(&meta.name),
        }
    }
}

impl SchedulerObject for ReplicaSet {
    type Source = SlimObject<SelectorFields>;

    fn read(source: &SlimObject<SelectorFields>, interner: &mut StringInterner) -> Self {
        let SlimObject {
            metadata: meta,
            fields,
        } = source;
        ReplicaSet {
            namespace: interner.text(&meta.namespace),
            name: interner.text(&meta.name),
            selector: fields.spec.selector.clone().unwrap_or(Selector::NOTHING),
        }
    }
}

impl SchedulerObject for PodDisruptionBudget {
    type Source = SlimObject<BudgetFields>;

    fn read(source: &SlimObject<BudgetFields>, interner: &mut StringInterner) -> Self {
        let SlimObject {
            metadata: meta,
            fields,
        } = source;
        PodDisruptionBudget {
            namespace: interner.text(&meta.namespace),
            name: interner.text(&meta.name),
            selector: fields.spec.selector.clone().unwrap_or(Selector::NOTHING),
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
