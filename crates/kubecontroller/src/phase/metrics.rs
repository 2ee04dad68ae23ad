//! Metrics of state machines.

use std::time::Duration;

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::{error::Severity, pass::HandlerRun, state_machine::StateMachine, status::Phased};

/// The metrics of all state machines of a process. Clones share the metrics.
///
/// Label values are names that the program declares, which bounds their number: phases that the machine does not declare are
/// counted as `unknown`.
#[derive(Clone, Debug)]
pub(crate) struct PhaseMetrics {
    transitions: Family<[(&'static str, String); 3], Counter>,
    durations: Family<[(&'static str, String); 2], Histogram>,
    failures: Family<[(&'static str, String); 3], Counter>,
    unsaved: Family<[(&'static str, String); 1], Counter>,
}

// --- PhaseMetrics ---

impl PhaseMetrics {
    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Number of transitions from one phase to another";
        registry.register("phase_transitions", help, self.transitions.clone());
        let help = "Duration of phases in seconds, from the first try to the end";
        registry.register("phase_duration_seconds", help, self.durations.clone());
        let help = "Number of failed tries of phases";
        registry.register("phase_failures", help, self.failures.clone());
        let help = "Number of failed status writes";
        registry.register("phase_persist_failures", help, self.unsaved.clone());
    }

    pub(super) fn worked<R: Phased>(&self, machine: &StateMachine<R>, run: &HandlerRun) {
        let known = |phase: &str| if machine.declares(phase) { phase } else { "unknown" }.to_owned();
        let name = machine.name().to_owned();
        let phase = known(&run.phase);
        if let Some(to) = &run.to {
            let labels = [
                ("machine", name.clone()),
                ("from", phase.clone()),
                ("to", known(to)),
            ];
            self.transitions.get_or_create(&labels).inc();
            let duration = run.duration.as_ref().map_or(0.0, Duration::as_secs_f64);
            self.durations
                .get_or_create(&[("machine", name.clone()), ("phase", phase.clone())])
                .observe(duration);
        }
        if let Some(severity) = run.failed {
            let labels = [
                ("machine", name),
                ("phase", phase),
                ("fatal", (severity == Severity::Fatal).to_string()),
            ];
            self.failures.get_or_create(&labels).inc();
        }
    }

    pub(super) fn unsaved<R: Phased>(&self, machine: &StateMachine<R>) {
        self.unsaved
            .get_or_create(&[("machine", machine.name().to_owned())])
            .inc();
    }
}

impl Default for PhaseMetrics {
    fn default() -> Self {
        PhaseMetrics {
            transitions: Family::default(),
            // 0.1 s to 7 hours.
            durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.1, 4.0, 10))),
            failures: Family::default(),
            unsaved: Family::default(),
        }
    }
}
