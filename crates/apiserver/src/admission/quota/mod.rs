//! Nothing in a namespace goes beyond its quotas.
//!
//! ```text
//! demand     what a request asks of the quotas of its namespace
//! account    a quota: what may be used, and what is
//! ledger     charges demands to quotas, one after the other, many with one write
//! ```
//!
//! Promise: what an object uses is written into the status of every quota it concerns before the object is stored, by a write
//! that fails if anybody else wrote meanwhile. So no more is ever stored than the quotas allow, by however many servers. An
//! object that is not stored after all stays charged until somebody counts anew.

mod evaluator;
mod quota_state;
#[cfg(test)]
mod tests;
mod usage_delta;

use std::sync::Arc;

use k3_api::{
    kinds::Persistence,
    quota::{Classes, Meter, is_free},
    status::Status,
};

use self::{
    evaluator::{ChargeError, QuotaEvaluator},
    usage_delta::{UsageDelta, matters},
};
use super::{AdmissionAttributes, Operation, derived_cache::DerivedCache, resource};
use crate::cache::WatchCaches;

/// The quotas of all namespaces.
#[derive(Default)]
pub(super) struct QuotaAdmission {
    ledger: QuotaEvaluator,
    classes: DerivedCache<Arc<Classes>>,
}

impl QuotaAdmission {
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
        let snapshot = quotas.cache.snapshot(0);
        let has_none = snapshot.objects.is_empty()
            || snapshot
                .under(&quotas.under(attributes.namespace), None)
                .next()
                .is_none();
        if has_none {
            return Ok(());
        }
        let kind = &attributes.resource.kind;
        let meter = Meter::of(&kind.group, &kind.plural, || self.classes(caches));
        if !matters(attributes, &meter) {
            return Ok(());
        }
        let demand = UsageDelta::new(meter, attributes, caches);
        let charged = self.ledger.charge(attributes, demand, &quotas, caches).await;
        charged.map_err(|refusal| match refusal {
            ChargeError::Forbidden(why) => attributes.forbidden(why),
            ChargeError::Failed(status) => status,
        })
    }

    fn classes(&self, caches: &WatchCaches) -> Arc<Classes> {
        let classes = resource("resource.k8s.io", "deviceclasses", caches);
        self.classes
            .get(&classes, |objects| Arc::new(Classes::read(objects)))
    }
}

/// Whether it can matter to a quota. Questions are not stored, and events never counted.
fn is_counted(attributes: &AdmissionAttributes<'_>) -> bool {
    let kind = &attributes.resource.kind;
    matches!(attributes.operation, Operation::Create | Operation::Update)
        && kind.persistence != Persistence::Virtual
        && !is_free(&kind.group, &kind.plural)
}
