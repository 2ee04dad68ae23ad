//! `ResourceQuota`: rejects requests that would exceed a quota of the namespace.
//!
//! ```text
//! usage_delta  what a request adds to the usage of its namespace
//! quota_state  one quota: its limits and its usage
//! evaluator    charges usage to quotas, many requests with one write
//! ```
//!
//! Promise: the usage of an object is written into the status of every matching quota before the object is stored, by a write
//! that fails on a conflict. So usage never exceeds the quotas, with any number of servers. An object that is not stored after
//! all stays charged until the quota controller recalculates.

mod evaluator;
mod quota_state;
#[cfg(test)]
mod tests;
mod usage_delta;

use std::sync::Arc;

use k3_api::{
    kinds::Persistence,
    quota::{DeviceClassIndex, QuotaEvaluator, is_ignored_resource},
    status::Status,
};
use k3_storage::Revision;

use self::{
    evaluator::{ChargeError, QuotaBatchEvaluator},
    usage_delta::{UsageDelta, matters},
};
use super::{AdmissionAttributes, Operation, derived_cache::DerivedCache, resource};
use crate::{cache::WatchCaches, registry::StoreWriter};

/// The quotas of all namespaces.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/admission.go QuotaAdmission, Validate
pub(super) struct QuotaAdmission {
    writer: StoreWriter,
    ledger: QuotaBatchEvaluator,
    classes: DerivedCache<Arc<DeviceClassIndex>>,
}

impl QuotaAdmission {
    pub(super) fn new(writer: StoreWriter) -> Self {
        QuotaAdmission {
            writer,
            ledger: QuotaBatchEvaluator::default(),
            classes: DerivedCache::default(),
        }
    }

    /// Charges what is asked to the quotas of its namespace, or refuses it.
    pub(super) async fn charge(
        &self,
        attributes: &AdmissionAttributes<'_>,
        caches: &WatchCaches,
    ) -> Result<(), Status> {
        if attributes.namespace.is_empty() || !is_counted(attributes) {
            return Ok(());
        }
        let quotas = resource("", "resourcequotas", caches);
        let snapshot = quotas.cache.snapshot(Revision::ZERO);
        let has_none = snapshot.objects.is_empty()
            || snapshot
                .under(&quotas.under(attributes.namespace), None)
                .next()
                .is_none();
        if has_none {
            return Ok(());
        }
        let kind = &attributes.resource.kind;
        let meter = QuotaEvaluator::of(&kind.group, &kind.plural, || self.classes(caches));
        if !matters(attributes, &meter) {
            return Ok(());
        }
        let demand = UsageDelta::new(meter, attributes, caches);
        let charged = self
            .ledger
            .charge(attributes, demand, &quotas, caches, &self.writer)
            .await;
        charged.map_err(|error| match error {
            ChargeError::Forbidden(why) => attributes.forbidden(why),
            ChargeError::Failed(status) => status,
        })
    }

    fn classes(&self, caches: &WatchCaches) -> Arc<DeviceClassIndex> {
        let classes = resource("resource.k8s.io", "deviceclasses", caches);
        self.classes
            .get(&classes, |objects| Arc::new(DeviceClassIndex::read(objects)))
    }
}

/// Whether it can matter to a quota. Questions are not stored, and events never counted.
fn is_counted(attributes: &AdmissionAttributes<'_>) -> bool {
    let kind = &attributes.resource.kind;
    matches!(attributes.operation, Operation::Create | Operation::Update)
        && kind.persistence != Persistence::Virtual
        && !is_ignored_resource(&kind.group, &kind.plural)
}
