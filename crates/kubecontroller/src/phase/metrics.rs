//! Metrics of state machines.

use std::time::Duration;

use super::{error::Severity, pass::HandlerRun, state_machine::StateMachine, status::Phased};
use crate::metrics::{MetricDesc, Metrics, exponential_buckets};

/// The metrics of all state machines of a process.
///
/// Label values are names that the program declares, which bounds their number: phases that the machine does not declare are
/// counted as `unknown`.
#[derive(Clone, Debug)]
pub(super) struct PhaseMetrics(pub(super) Metrics);

const TRANSITIONS: MetricDesc = MetricDesc::counter(
    "phase_transitions_total",
    "Number of transitions from one phase to another.",
    &["machine", "from", "to"],
);
const DURATION: MetricDesc = MetricDesc::histogram(
    "phase_duration_seconds",
    "Duration of phases in seconds, from the first try to the end.",
    &["machine", "phase"],
    // 0.1 s to 7 hours.
    &exponential_buckets::<10>(0.1, 4.0),
);
const FAILURES: MetricDesc = MetricDesc::counter(
    "phase_failures_total",
    "Number of failed tries of phases.",
    &["machine", "phase", "fatal"],
);
const PERSIST_FAILURES: MetricDesc = MetricDesc::counter(
    "phase_persist_failures_total",
    "Number of failed status writes.",
    &["machine"],
);

// --- PhaseMetrics ---

impl PhaseMetrics {
    pub(super) fn worked<R: Phased>(&self, machine: &StateMachine<R>, run: &HandlerRun) {
        let known = |phase| if machine.declares(phase) { phase } else { "unknown" };
        let name = machine.name();
        let phase = known(run.phase.as_str());
        if let Some(to) = &run.to {
            self.0
                .increment(&TRANSITIONS, &[name, phase, known(to.as_str())], 1);
            let duration = run.duration.as_ref().map_or(0.0, Duration::as_secs_f64);
            self.0.observe(&DURATION, &[name, phase], duration);
        }
        if let Some(severity) = run.failed {
            let fatal = if severity == Severity::Fatal {
                "true"
            } else {
                "false"
            };
            self.0.increment(&FAILURES, &[name, phase, fatal], 1);
        }
    }

    pub(super) fn unsaved<R: Phased>(&self, machine: &StateMachine<R>) {
        self.0.increment(&PERSIST_FAILURES, &[machine.name()], 1);
    }
}
