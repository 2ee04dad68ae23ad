//! A ResourceQuota during a charge: hard limits and used amounts.

use std::sync::Arc;

use k3_api::{
    kinds::pod_amounts::{self, Totals},
    quota::{QuotaEvaluator, ScopeAttributes, ScopeSelector},
    strategy::{Tree, TreeMut},
    time::Time,
};
use k3_storage::Write;
use serde_json::{Map, Value};

use crate::{
    cache::CachedObject,
    registry::{Resource, own_change},
};

/// Who is said to have written the status.
const MANAGER: &str = "kube-apiserver";

/// A quota as it was read, and what is used of it after the demands so far.
pub(super) struct QuotaState {
    pub name: String,
    pub hard: Totals,
    pub used: Totals,
    selectors: Vec<ScopeSelector>,
    tree: Value,
    object: Arc<CachedObject>,
    /// Whether more is used than was read.
    pub is_charged: bool,
}

impl QuotaState {
    pub(super) fn read(object: Arc<CachedObject>) -> Self {
        let tree = object.tree();
        let amounts = |field: &str| pod_amounts::amounts(tree.at("status").entries(field));
        QuotaState {
            name: object.name().to_owned(),
            hard: amounts("hard"),
            used: amounts("used"),
            selectors: ScopeSelector::of(tree.at("spec")),
            is_charged: false,
            tree,
            object,
        }
    }

    /// Whether it is about what a meter counts, and about an object.
    pub(super) fn concerns(&self, meter: &QuotaEvaluator, traits: &ScopeAttributes) -> bool {
        self.hard.keys().any(|name| meter.tracks(name))
            && self.selectors.iter().all(|selector| selector.meets(traits))
    }

    /// The write that makes it so. It fails if the quota is no longer as it was read.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/resource_access.go UpdateQuotaStatus
    pub(super) fn write(&self, quotas: &Resource, now: Time) -> Write {
        let mut charged = self.tree.clone();
        let used: Map<_, _> = self
            .used
            .iter()
            .map(|(name, amount)| (name.clone(), Value::from(amount.to_string())))
            .collect();
        charged.ensure_object("status").set("used", used);
        let bytes = own_change(quotas, &self.tree, charged, "status", MANAGER, now);
        Write::update(self.object.key.clone(), self.object.revision, bytes)
    }
}
