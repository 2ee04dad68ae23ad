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

mod account;
mod demand;
mod ledger;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k3_api::{
    kinds::Persistence,
    quota::{DeviceClassIndex, QuotaEvaluator, is_ignored_resource},
    status::Status,
};

use self::{
    demand::{Demand, matters},
    ledger::{Ledger, Refusal},
};
use super::{Attributes, Operation, remembered::Remembered, resource};
use crate::cache::Caches;

/// The quotas of all namespaces.
#[derive(Default)]
pub(super) struct Quotas {
    ledger: Ledger,
    classes: Remembered<Arc<DeviceClassIndex>>,
}

impl Quotas {
    /// Charges what is asked to the quotas of its namespace, or refuses it.
    pub(super) async fn charge(&self, attributes: &Attributes<'_>, caches: &Caches) -> Result<(), Status> {
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
        let meter = QuotaEvaluator::of(&kind.group, &kind.plural, || self.classes(caches));
        if !matters(attributes, &meter) {
            return Ok(());
        }
        let demand = Demand::new(meter, attributes, caches);
        let charged = self.ledger.charge(attributes, demand, &quotas, caches).await;
        charged.map_err(|refusal| match refusal {
            Refusal::Forbidden(why) => attributes.forbidden(why),
            Refusal::Failed(status) => status,
        })
    }

    fn classes(&self, caches: &Caches) -> Arc<DeviceClassIndex> {
        let classes = resource("resource.k8s.io", "deviceclasses", caches);
        self.classes
            .get(&classes, |objects| Arc::new(DeviceClassIndex::read(objects)))
    }
}

/// Whether it can matter to a quota. Questions are not stored, and events never counted.
fn is_counted(attributes: &Attributes<'_>) -> bool {
    let kind = &attributes.resource.kind;
    matches!(attributes.operation, Operation::Create | Operation::Update)
        && kind.persistence != Persistence::Virtual
        && !is_ignored_resource(&kind.group, &kind.plural)
}
