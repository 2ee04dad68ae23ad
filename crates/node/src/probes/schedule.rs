//! When to look, and how many looks make a result. Pure.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;

use super::{Outcome, ProbeKind, look::seconds};

/// What a probe's spec says of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    kind: ProbeKind,
    initial_delay: Duration,
    pub(super) period: Duration,
}

/// What was found in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    kind: ProbeKind,
    success_threshold: u32,
    failure_threshold: u32,
    last: Option<bool>,
    run: u32,
}

/// What follows from a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The result, once enough was found in a row.
    pub(super) outcome: Option<Outcome>,
    /// Whether this container need not be looked at any more.
    pub(super) is_last: bool,
}

// --- Times ---

impl Times {
    pub(super) fn of(kind: ProbeKind, probe: &Probe) -> Self {
        let delay = probe
            .initial_delay_seconds
            .and_then(|delay| u64::try_from(delay).ok());
        Times {
            kind,
            initial_delay: Duration::from_secs(delay.unwrap_or(0)),
            period: seconds(probe.period_seconds, 10),
        }
    }

    /// How long to wait for the first look at a container that runs for `age`, by an agent that runs for `up`.
    ///
    /// Readiness is looked at as soon as it may be, for somebody waits for it. The others begin a period after their container:
    /// one that needs that long to listen must not be counted as failing. An agent that began a moment ago spreads its looks
    /// over the period, by `share` of it, so that all of them do not come at once.
    pub(super) fn first(&self, age: Duration, up: Duration, share: f64) -> Duration {
        let delay = self.initial_delay.saturating_sub(age);
        // What the agent began itself it need not spread.
        if age > up && up < self.period {
            return delay.max(self.period.mul_f64(share));
        }
        if self.kind == ProbeKind::Readiness {
            return delay;
        }
        let least = self.initial_delay.max(age).max(Duration::from_secs(1));
        let whole = least.as_secs() + u64::from(least.subsec_nanos() > 0);
        let period = self.period.as_secs().max(1);
        Duration::from_secs(whole.div_ceil(period) * period).saturating_sub(age)
    }
}

// --- Tally ---

impl Tally {
    pub(super) fn of(kind: ProbeKind, probe: &Probe) -> Self {
        let threshold = |field: Option<i32>, default| {
            let given = field.and_then(|count| u32::try_from(count).ok());
            given.filter(|count| *count > 0).unwrap_or(default)
        };
        Tally {
            kind,
            success_threshold: threshold(probe.success_threshold, 1),
            failure_threshold: threshold(probe.failure_threshold, 3),
            last: None,
            run: 0,
        }
    }

    /// Counts one look.
    pub(super) fn count(&mut self, well: bool) -> Verdict {
        if self.last != Some(well) {
            self.last = Some(well);
            self.run = 0;
        }
        self.run = self.run.saturating_add(1);
        let (enough, outcome) = if well {
            (self.success_threshold, Outcome::Success)
        } else {
            (self.failure_threshold, Outcome::Failure)
        };
        if self.run < enough {
            return Verdict {
                outcome: None,
                is_last: false,
            };
        }
        // A container that fails is ended, and one that is up stays up: to run commands in one that is being ended confuses
        // some runtimes.
        let is_last = match self.kind {
            ProbeKind::Startup => true,
            ProbeKind::Liveness => !well,
            ProbeKind::Readiness => false,
        };
        Verdict {
            outcome: Some(outcome),
            is_last,
        }
    }
}

/// A share of a period, the same for the same text: what is spread by it needs no luck.
pub(super) fn share(text: &str) -> f64 {
    let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = text.bytes().fold(0x811c_9dc5, fold);
    f64::from(hash) / f64::from(u32::MAX)
}
