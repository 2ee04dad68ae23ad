//! What groups pods: their owners, services, and budgets of disruption.

use std::collections::BTreeMap;

use hashbrown::HashSet;
use kubecontroller::object::{Slim, SlimMeta};
use serde::Deserialize;

use crate::{
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

/// What is read of a ReplicaSet or a StatefulSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SelectorFields {
    /// What it is to be.
    pub spec: RawSelectorSpec,
}

/// The part of a specification that selects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawSelectorSpec {
    /// Its pods.
    pub selector: Option<RawSelector>,
}

/// What is read of a Service or a ReplicationController.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceFields {
    /// What it is to be.
    pub spec: RawServiceSpec,
}

/// The part of a specification that selects by labels alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawServiceSpec {
    /// Its pods.
    pub selector: BTreeMap<String, String>,
}

/// What is read of a budget of disruption.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BudgetFields {
    /// What it is to be.
    pub spec: RawSelectorSpec,
    /// What it is.
    pub status: RawBudgetStatus,
}

/// The status of a budget as far as scheduling reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawBudgetStatus {
    /// How many may go.
    pub disruptions_allowed: i64,
    /// Those that are about to go.
    pub disrupted_pods: BTreeMap<String, serde::de::IgnoredAny>,
}

/// A budget of disruption.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Where it counts.
    pub namespace: Text,
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
        let owner = meta.owner_references.iter().find(|owner| owner.controller == Some(true))?;
        Some(Owner {
            kind: pools.text(&owner.kind),
            name: pools.text(&owner.name),
        })
    }
}

impl Budget {
    /// Takes a budget as it was read.
    pub fn read(slim: &Slim<BudgetFields>, pools: &mut Pools) -> Self {
        let fields = &slim.fields;
        Budget {
            namespace: pools.text(&slim.metadata.namespace),
            selector: Selector::read(fields.spec.selector.as_ref(), pools),
            allowed: fields.status.disruptions_allowed,
            disrupted: fields.status.disrupted_pods.keys().map(|name| name.as_str().into()).collect(),
        }
    }
}
