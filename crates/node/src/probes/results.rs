//! Results of the probes of a pod.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::runtime::{Container, ContainerId, ContainerState};

/// The purpose of a probe.
// upstream: pkg/kubelet/prober/prober_manager.go probeType
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeType {
    /// Whether the container has started. The other probes wait for it.
    Startup,
    /// Whether the container works. If it fails, the container is restarted.
    Liveness,
    /// Whether the container can serve requests. If it fails, services do not route to the pod.
    Readiness,
}

/// The outcome of a probe, after enough consecutive equal results.
// upstream: pkg/kubelet/prober/results/results_manager.go Result
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The success threshold was reached.
    Success,
    /// The failure threshold was reached.
    Failure,
    /// Neither threshold was reached yet.
    Unknown,
}

/// Outcomes of the probes of one pod, by container ID: a restarted container has none at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeResults {
    outcomes: BTreeMap<(ContainerId, ProbeType), ProbeOutcome>,
    agent_started: Option<Timestamp>,
}

// --- ProbeResults ---

impl ProbeResults {
    /// No outcomes, for an agent that started at this time.
    pub fn new(agent_started: Timestamp) -> Self {
        ProbeResults {
            outcomes: BTreeMap::new(),
            agent_started: Some(agent_started),
        }
    }

    /// Adds an outcome.
    #[must_use]
    pub fn with(mut self, id: &ContainerId, kind: ProbeType, outcome: ProbeOutcome) -> Self {
        self.set(id, kind, outcome);
        self
    }

    /// Outcome of the startup probe of a container.
    pub fn startup(&self, id: &ContainerId) -> Option<ProbeOutcome> {
        self.get(id, ProbeType::Startup)
    }

    /// Outcome of the liveness probe of a container. It is restarted on [`ProbeOutcome::Failure`]. The kubelet has one results
    /// manager per probe (`livenessManager`, `readinessManager`, `startupManager`).
    // upstream: pkg/kubelet/prober/results/results_manager.go Manager, Get
    pub fn liveness(&self, id: &ContainerId) -> Option<ProbeOutcome> {
        self.get(id, ProbeType::Liveness)
    }

    /// Outcome of the readiness probe of a container.
    pub fn readiness(&self, id: &ContainerId) -> Option<ProbeOutcome> {
        self.get(id, ProbeType::Readiness)
    }

    /// Whether a container started before the agent. Then `started` and `ready` of its API status hold until the first outcome.
    // upstream: pkg/kubelet/prober/prober_manager.go setReadyStateOnKubeletRestart
    pub fn started_before_agent(&self, container: &Container) -> bool {
        let ContainerState::Running { started } = &container.state else {
            return false;
        };
        self.agent_started
            .is_some_and(|agent_started| *started < agent_started)
    }

    fn get(&self, id: &ContainerId, kind: ProbeType) -> Option<ProbeOutcome> {
        self.outcomes.get(&(id.clone(), kind)).copied()
    }

    /// Returns whether the outcome changed.
    pub(super) fn set(&mut self, id: &ContainerId, kind: ProbeType, outcome: ProbeOutcome) -> bool {
        self.outcomes.insert((id.clone(), kind), outcome) != Some(outcome)
    }

    /// Keeps only the outcomes of containers for which `keep` returns true.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&ContainerId) -> bool) {
        self.outcomes.retain(|(id, _), _| keep(id));
    }
}

// --- ProbeType ---

impl std::fmt::Display for ProbeType {
    /// The name in event messages.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ProbeType::Startup => "Startup",
            ProbeType::Liveness => "Liveness",
            ProbeType::Readiness => "Readiness",
        })
    }
}
