//! What the probes of a pod found.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::runtime::{Container, ContainerId, ContainerState};

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeKind {
    /// Whether the container is up; the other two wait for it.
    Startup,
    /// Whether it should be left running.
    Liveness,
    /// Whether it should be sent work.
    Readiness,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Often enough in a row it was well.
    Success,
    /// Often enough in a row it was not.
    Failure,
    /// Neither yet.
    Unknown,
}

/// What the probes of one pod found, by container. A container that was begun again is another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeResults {
    outcomes: BTreeMap<(ContainerId, ProbeKind), Outcome>,
    /// When the agent began.
    since: Option<Timestamp>,
}

// --- ProbeResults ---

impl ProbeResults {
    /// Nothing found yet, by an agent that began then.
    pub fn new(since: Timestamp) -> Self {
        ProbeResults {
            outcomes: BTreeMap::new(),
            since: Some(since),
        }
    }

    /// The same with one more.
    #[must_use]
    pub fn with(mut self, id: &ContainerId, kind: ProbeKind, outcome: Outcome) -> Self {
        self.set(id, kind, outcome);
        self
    }

    /// Whether a container is up.
    pub fn startup(&self, id: &ContainerId) -> Option<Outcome> {
        self.get(id, ProbeKind::Startup)
    }

    /// Whether a container should be left running. At a [`Outcome::Failure`] it is to be ended, and begun again.
    pub fn liveness(&self, id: &ContainerId) -> Option<Outcome> {
        self.get(id, ProbeKind::Liveness)
    }

    /// Whether a container should be sent work.
    pub fn readiness(&self, id: &ContainerId) -> Option<Outcome> {
        self.get(id, ProbeKind::Readiness)
    }

    /// Whether a container was there before the agent was, so that what the API says of it still holds.
    pub fn ran_before(&self, container: &Container) -> bool {
        let ContainerState::Running { started } = &container.state else {
            return false;
        };
        self.since.is_some_and(|since| *started < since)
    }

    fn get(&self, id: &ContainerId, kind: ProbeKind) -> Option<Outcome> {
        self.outcomes.get(&(id.clone(), kind)).copied()
    }

    /// Whether that is something else than before.
    pub(super) fn set(&mut self, id: &ContainerId, kind: ProbeKind, outcome: Outcome) -> bool {
        self.outcomes.insert((id.clone(), kind), outcome) != Some(outcome)
    }

    /// Forgets the containers that are not kept.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&ContainerId) -> bool) {
        self.outcomes.retain(|(id, _), _| keep(id));
    }
}

// --- ProbeKind ---

impl std::fmt::Display for ProbeKind {
    /// As events name it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ProbeKind::Startup => "Startup",
            ProbeKind::Liveness => "Liveness",
            ProbeKind::Readiness => "Readiness",
        })
    }
}
