//! Metrics of admission steps.

use std::future::Future;

use k3_api::status::Status;
use tokio::time::Instant;

use super::admission::ObjectAdmission;

/// A step and operation, as metric labels.
pub(super) type AdmissionStep = (&'static str, &'static str);

pub(super) const ADMIT_NEW: AdmissionStep = ("admit", "CREATE");
pub(super) const VALIDATE_NEW: AdmissionStep = ("validate", "CREATE");
pub(super) const ADMIT_CHANGE: AdmissionStep = ("admit", "UPDATE");
pub(super) const VALIDATE_CHANGE: AdmissionStep = ("validate", "UPDATE");

// --- ObjectAdmission ---

impl ObjectAdmission {
    /// Takes a step of admission, and counts how long it takes.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/metrics/metrics.go WithStepMetrics, ObserveAdmissionStep
    pub(super) async fn step(
        &self,
        (name, operation): AdmissionStep,
        step: impl Future<Output = Result<(), Status>>,
    ) -> Result<(), Status> {
        let began = Instant::now();
        let outcome = step.await;
        self.metrics.admitted(name, operation, &outcome, began.elapsed());
        outcome
    }
}
