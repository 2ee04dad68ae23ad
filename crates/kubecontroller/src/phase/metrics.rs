//! The figures of machines.

use std::time::Duration;

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::{error::Severity, machine::Machine, pass::HandlerRun, status::Phased};

/// The figures of the machines of a process. Clones count together.
///
/// Labels are names that the program declares, so there are never many: phases that a machine does not know are counted as
/// `unknown`.
#[derive(Clone, Debug)]
pub(crate) struct PhaseMetrics {
    transitions: Family<[(&'static str, String); 3], Counter>,
    durations: Family<[(&'static str, String); 2], Histogram>,
    failures: Family<[(&'static str, String); 3], Counter>,
    unsaved: Family<[(&'static str, String); 1], Counter>,
}

// --- PhaseMetrics ---

impl PhaseMetrics {
    /// Shows them where that registry is shown.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Objects that went from one phase to another";
        registry.register("phase_transitions", help, self.transitions.clone());
        let help = "How long phases took, from first try to end";
        registry.register("phase_duration_seconds", help, self.durations.clone());
        let help = "Tries of phases that failed";
        registry.register("phase_failures", help, self.failures.clone());
        let help = "Statuses that could not be written at once";
        registry.register("phase_persist_failures", help, self.unsaved.clone());
    }

    pub(super) fn worked<R: Phased>(&self, machine: &Machine<R>, worked: &HandlerRun) {
        let known = |phase: &str| if machine.knows(phase) { phase } else { "unknown" }.to_owned();
        let (name, phase) = (machine.name().to_owned(), known(&worked.phase));
        if let Some(to) = &worked.to {
            let labels = [
                ("machine", name.clone()),
                ("from", phase.clone()),
                ("to", known(to)),
            ];
            self.transitions.get_or_create(&labels).inc();
            let took = worked.took.as_ref().map_or(0.0, Duration::as_secs_f64);
            self.durations
                .get_or_create(&[("machine", name.clone()), ("phase", phase.clone())])
                .observe(took);
        }
        if let Some(severity) = worked.failed {
            let labels = [
                ("machine", name),
                ("phase", phase),
                ("fatal", (severity == Severity::Fatal).to_string()),
            ];
            self.failures.get_or_create(&labels).inc();
        }
    }

    pub(super) fn unsaved<R: Phased>(&self, machine: &Machine<R>) {
        self.unsaved
            .get_or_create(&[("machine", machine.name().to_owned())])
            .inc();
    }
}

impl Default for PhaseMetrics {
    fn default() -> Self {
        PhaseMetrics {
            transitions: Family::default(),
            // A tenth of a second to seven hours.
            durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.1, 4.0, 10))),
            failures: Family::default(),
            unsaved: Family::default(),
        }
    }
}
