//! Reconciles PodDisruptionBudgets: writes disruptionsAllowed and the other counts.
//!
//! Invariants: a status is written only over the one that was read, since the eviction API updates it concurrently. If the
//! counts cannot be computed, no disruption is allowed (failSafe).

use std::sync::Arc;

use k3_workloads::Pod;
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    store::Index,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

use super::{
    pdb_status::{self, DisruptedPods, ExpectedPodCount},
    scale::{ExpectedScale, ScaleError, ScaleFinder},
};
use crate::{
    event_message::EventMessage,
    objects::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    resource::{POD_DISRUPTION_BUDGETS, PODS},
};

// upstream: pkg/controller/disruption/disruption.go DisruptionController, trySync
pub(super) struct DisruptionController {
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) budgets: Informer<PodDisruptionBudget>,
    pub(super) pods: Index<Pod>,
    pub(super) scale_finder: ScaleFinder,
}

impl Reconciler for DisruptionController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(budget) = self.budgets.store().get(&request.key) else {
            return Ok(Outcome::Done);
        };
        let mut pods = self.pods.get(&budget.metadata.namespace);
        pods.retain(|pod| budget.selects(&pod.metadata.labels));
        if pods.is_empty() {
            self.record_event(&budget, &EventMessage::normal("NoPods", "No matching pods found"));
        }
        let expected_pod_count = match self.expected_pod_count(&budget, &pods).await {
            Ok(expected_pod_count) => expected_pod_count,
            Err(unknown) => return self.fail_safe(&request, &budget, unknown).await,
        };
        let now = self.clock.now();
        let disrupted_pods = DisruptedPods::new(&budget.status, &pods, now);
        for pod in &disrupted_pods.failed {
            // upstream formats the namespace twice and omits the name; the message is kept byte for byte
            let namespace = &budget.metadata.namespace;
            let message =
                format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
            EventMessage::warning("NotDeleted", message)
                .record(&self.recorder, &pod.metadata.reference(&PODS));
        }
        let healthy = disrupted_pods.healthy(&pods);
        let next = disrupted_pods.next;
        let status = pdb_status::status(&budget, expected_pod_count, disrupted_pods.pending, healthy, now);
        self.write_status(&request, &budget, &status).await?;
        Ok(next.map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}

impl DisruptionController {
    // upstream: pkg/controller/disruption/disruption.go getExpectedPodCount
    async fn expected_pod_count(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Arc<Pod>],
    ) -> Result<ExpectedPodCount, ScaleError> {
        let total = if ExpectedPodCount::needs_scale(&budget.spec) {
            self.scale_finder.expected_scale(pods).await?
        } else {
            ExpectedScale::default()
        };
        if total.has_unmanaged_pods {
            let selector = budget.spec.selector.as_ref();
            let selector = selector.map_or_else(
                || "nil".to_owned(),
                |selector| selector.to_label_selector().to_string(),
            );
            let message = format!(
                "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a \
                 result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. \
                 To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
            );
            self.record_event(budget, &EventMessage::warning("UnmanagedPods", message));
        }
        Ok(ExpectedPodCount::new(&budget.spec, pods.len(), total.wanted))
    }

    /// Fail-safe: no disruption is allowed while the counts are unknown.
    // upstream: pkg/controller/disruption/disruption.go failSafe
    async fn fail_safe(
        &self,
        request: &Request,
        budget: &PodDisruptionBudget,
        why: ScaleError,
    ) -> Result<Outcome, Error> {
        let message = format!("Failed to calculate the number of expected pods: {why}");
        self.record_event(
            budget,
            &EventMessage::warning("CalculateExpectedPodCountFailed", message),
        );
        let status = pdb_status::fail_safe_status(budget, &why.to_string(), self.clock.now());
        self.write_status(request, budget, &status).await?;
        match why {
            // The server may serve the kind later.
            ScaleError::Api(error) => Err(error.into()),
            _ => Ok(Outcome::Done),
        }
    }

    // upstream: pkg/controller/disruption/disruption.go writePdbStatus
    async fn write_status(
        &self,
        request: &Request,
        budget: &PodDisruptionBudget,
        status: &PodDisruptionBudgetStatus,
    ) -> kube::Result<()> {
        if *status == budget.status {
            return Ok(());
        }
        let meta = &budget.metadata;
        let object_ref =
            ObjectRef::new(&POD_DISRUPTION_BUDGETS, &meta.namespace, &meta.name).subresource("status");
        let patch = pdb_status::status_patch(status, &budget.status, &meta.resource_version);
        match self.writer.merge_patch::<WrittenObject>(object_ref, &patch).await {
            Ok(written) => {
                request.record_write(&self.budgets, &written.metadata.resource_version);
                Ok(())
            }
            // The budget was deleted; there is no status to write.
            Err(error) if has_status_code(&error, 404) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn record_event(&self, budget: &PodDisruptionBudget, event: &EventMessage) {
        event.record(
            &self.recorder,
            &budget.metadata.reference(&POD_DISRUPTION_BUDGETS),
        );
    }
}
