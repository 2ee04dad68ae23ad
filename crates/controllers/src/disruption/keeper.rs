//! Writes how many pods of a budget may be missed.
//!
//! Promises: a status is written only over the one that was looked at, since the server counts evictions in it meanwhile. If
//! nothing can be said, it says that nothing is allowed.

use std::sync::Arc;

use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    store::Index,
};

use super::{
    plan::{self, Demand, Evictions, selector_words},
    scale::{Scales, Total, Unknown},
};
use crate::{
    news::News,
    objects::{Budget, BudgetStatus, Pod},
    resource::{POD_DISRUPTION_BUDGETS, PODS},
    writer::{Made, Place, Writer, is},
};

/// Keeps the status of budgets.
pub(super) struct Keeper {
    pub(super) writer: Writer,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) budgets: Informer<Budget>,
    pub(super) pods: Index<Pod>,
    pub(super) scales: Scales,
}

impl Reconciler for Keeper {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(budget) = self.budgets.store().get(&request.key) else {
            return Ok(Outcome::Done);
        };
        let mut pods = self.pods.get(&budget.metadata.namespace);
        pods.retain(|pod| budget.selects(&pod.metadata.labels));
        if pods.is_empty() {
            self.tell(&budget, &News::normal("NoPods", "No matching pods found"));
        }
        let demand = match self.demand(&budget, &pods).await {
            Ok(demand) => demand,
            Err(unknown) => return self.give_up(&request, &budget, unknown).await,
        };
        let now = self.clock.now();
        let evictions = Evictions::new(&budget.status, &pods, now);
        for pod in &evictions.failed {
            // That is how it is told everywhere: the namespace twice, and not the name.
            let namespace = &budget.metadata.namespace;
            let words =
                format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
            News::warning("NotDeleted", words).tell(&self.recorder, &pod.metadata.reference(&PODS));
        }
        let (healthy, next) = (evictions.healthy(&pods), evictions.next);
        let status = plan::status(&budget, demand, evictions.pending, healthy, now);
        self.write(&request, &budget, &status).await?;
        Ok(next.map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}

impl Keeper {
    async fn demand(&self, budget: &Budget, pods: &[Arc<Pod>]) -> Result<Demand, Unknown> {
        let total = if Demand::needs_scale(&budget.spec) {
            self.scales.total(pods).await?
        } else {
            Total::default()
        };
        if total.has_strays {
            let selector = budget.spec.selector.as_ref();
            let selector = selector.map_or_else(
                || "nil".to_owned(),
                |selector| selector_words(selector.text.get()),
            );
            let words = format!(
                "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a \
                 result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. \
                 To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
            );
            self.tell(budget, &News::warning("UnmanagedPods", words));
        }
        Ok(Demand::new(&budget.spec, pods.len(), total.wanted))
    }

    /// Says that nothing is allowed, since nobody knows better.
    async fn give_up(&self, request: &Request, budget: &Budget, why: Unknown) -> Result<Outcome, Error> {
        let words = format!("Failed to calculate the number of expected pods: {why}");
        self.tell(budget, &News::warning("CalculateExpectedPodCountFailed", words));
        let status = plan::unknown(budget, &why.to_string(), self.clock.now());
        self.write(request, budget, &status).await?;
        match why {
            // The server may know it later.
            Unknown::Api(error) => Err(error.into()),
            _ => Ok(Outcome::Done),
        }
    }

    async fn write(&self, request: &Request, budget: &Budget, status: &BudgetStatus) -> kube::Result<()> {
        if *status == budget.status {
            return Ok(());
        }
        let meta = &budget.metadata;
        let place = Place::new(&POD_DISRUPTION_BUDGETS, &meta.namespace, &meta.name).part("status");
        let patch = plan::patch(status, &budget.status, &meta.resource_version);
        match self.writer.update::<Made>(place, &patch).await {
            Ok(made) => {
                request.record_write(&self.budgets, &made.metadata.resource_version);
                Ok(())
            }
            // It is gone, and has nothing to tell.
            Err(error) if is(&error, 404) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn tell(&self, budget: &Budget, news: &News) {
        news.tell(
            &self.recorder,
            &budget.metadata.reference(&POD_DISRUPTION_BUDGETS),
        );
    }
}
