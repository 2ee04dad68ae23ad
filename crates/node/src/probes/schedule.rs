//! When a probe runs, and when its results cross a threshold. Pure functions.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;

use super::{
    ProbeOutcome, ProbeType,
    prober::{ProbeResult, positive_seconds},
};

/// Delay and period of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeSchedule {
    kind: ProbeType,
    initial_delay: Duration,
    pub(super) period: Duration,
}

/// Counts consecutive equal results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThresholdCounter {
    kind: ProbeType,
    success_threshold: u32,
    failure_threshold: u32,
    last_result: Option<ProbeResult>,
    /// Number of consecutive results that equal the last one.
    result_run: u32,
}

/// What follows from a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeDecision {
    /// The outcome, if the threshold was reached.
    pub(super) outcome: Option<ProbeOutcome>,
    /// Whether this container needs no further probes of this kind.
    pub(super) is_last: bool,
}

// --- ProbeSchedule ---

impl ProbeSchedule {
    pub(super) fn new(kind: ProbeType, probe: &Probe) -> Self {
        let delay = probe
            .initial_delay_seconds
            .and_then(|delay| u64::try_from(delay).ok());
        ProbeSchedule {
            kind,
            initial_delay: Duration::from_secs(delay.unwrap_or(0)),
            period: positive_seconds(probe.period_seconds, 10),
        }
    }

    /// Delay until the first probe of a container.
    ///
    /// Readiness probes run as soon as the initial delay permits, because traffic waits for them. Startup and liveness probes run
    /// at multiples of the period after the start of the container: a container that needs some time to listen must not collect
    /// failures. After a start of the agent, probes of containers that were already running are spread over the period by
    /// `fraction`, so that they do not all run at once.
    // upstream: pkg/kubelet/prober/worker.go run, doProbe
    pub(super) fn first_delay(
        &self,
        container_age: Duration,
        agent_uptime: Duration,
        fraction: f64,
    ) -> Duration {
        let remaining_delay = self.initial_delay.saturating_sub(container_age);
        // Containers that this agent started are spread already.
        if container_age > agent_uptime && agent_uptime < self.period {
            return remaining_delay.max(self.period.mul_f64(fraction));
        }
        if self.kind == ProbeType::Readiness {
            return remaining_delay;
        }
        let earliest = self.initial_delay.max(container_age).max(Duration::from_secs(1));
        let whole_seconds = earliest.as_secs() + u64::from(earliest.subsec_nanos() > 0);
        let period = self.period.as_secs().max(1);
        Duration::from_secs(whole_seconds.div_ceil(period) * period).saturating_sub(container_age)
    }
}

// --- ThresholdCounter ---

impl ThresholdCounter {
    pub(super) fn new(kind: ProbeType, probe: &Probe) -> Self {
        let threshold = |field: Option<i32>, default| {
            let threshold = field.and_then(|count| u32::try_from(count).ok());
            threshold.filter(|count| *count > 0).unwrap_or(default)
        };
        ThresholdCounter {
            kind,
            success_threshold: threshold(probe.success_threshold, 1),
            failure_threshold: threshold(probe.failure_threshold, 3),
            last_result: None,
            result_run: 0,
        }
    }

    // upstream: pkg/kubelet/prober/worker.go doProbe
    pub(super) fn count(&mut self, result: ProbeResult) -> ProbeDecision {
        if self.last_result != Some(result) {
            self.last_result = Some(result);
            self.result_run = 0;
        }
        self.result_run = self.result_run.saturating_add(1);
        let (threshold, outcome) = match result {
            ProbeResult::Success => (self.success_threshold, ProbeOutcome::Success),
            ProbeResult::Failure => (self.failure_threshold, ProbeOutcome::Failure),
        };
        if self.result_run < threshold {
            return ProbeDecision {
                outcome: None,
                is_last: false,
            };
        }
        // A failed container will be stopped, and exec in a stopping container confuses some runtimes. A started container stays
        // started.
        let is_last = match self.kind {
            ProbeType::Startup => true,
            ProbeType::Liveness => result == ProbeResult::Failure,
            ProbeType::Readiness => false,
        };
        ProbeDecision {
            outcome: Some(outcome),
            is_last,
        }
    }
}

/// Maps a key to a number from 0 to 1 by its FNV-1a hash. Unlike upstream's random number, it makes schedules reproducible.
pub(super) fn period_fraction(key: &str) -> f64 {
    let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = key.bytes().fold(0x811c_9dc5, fold);
    f64::from(hash) / f64::from(u32::MAX)
}
