//! A pod that waits.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use super::{Moment, Patience, order::Key};
use crate::{
    object::Pod,
    plugins::{Plugin, Plugins},
};

/// Where a pod waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is to be tried.
    Ready,
    /// It is to be tried after a while.
    BackingOff,
    /// The same, after a failure that was not its own.
    Failed,
    /// Something has to happen first.
    Waiting,
    /// It is being tried.
    Flight,
}

/// A pod that waits.
#[derive(Debug)]
pub(super) struct Entry {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Where it waits.
    pub place: Place,
    /// How often it was tried.
    pub attempts: u32,
    /// How often no node did.
    pub rejections: u32,
    /// How often in a row something else went wrong.
    pub failures: u32,
    /// When it came.
    pub came: Moment,
    /// Since when it waits.
    pub since: Moment,
    /// Who rejected it.
    pub plugins: Plugins,
    /// Who keeps it from being tried at all.
    pub gate: Option<Plugin>,
    arrival: u64,
}

/// Backing off ends at full seconds, so that pods that end together are sorted by importance.
const WINDOW: Duration = Duration::from_secs(1);

impl Entry {
    /// A pod that came.
    pub(super) fn new(pod: Arc<Pod>, now: Moment, arrival: u64) -> Self {
        Entry {
            pod,
            place: Place::Flight,
            attempts: 0,
            rejections: 0,
            failures: 0,
            came: now,
            since: now,
            plugins: Plugins::default(),
            gate: None,
            arrival,
        }
    }

    /// The more important first, then the one that waits longer.
    pub(super) fn ready_key(&self) -> Key {
        (
            Duration::ZERO,
            Reverse(self.pod.priority()),
            self.since,
            self.arrival,
        )
    }

    /// The one whose time comes first, then as among those that are ready.
    pub(super) fn backoff_key(&self, patience: &Patience) -> Key {
        (
            self.until(patience),
            Reverse(self.pod.priority()),
            self.since,
            self.arrival,
        )
    }

    /// Whether it still backs off.
    pub(super) fn backs_off(&self, patience: &Patience, now: Moment) -> bool {
        let tried = self.failures > 0 || self.rejections > 0;
        tried && self.until(patience) >= window(now)
    }

    fn until(&self, patience: &Patience) -> Moment {
        let count = if self.failures > 0 {
            self.failures
        } else {
            self.rejections
        };
        if count == 0 {
            return Duration::ZERO;
        }
        let doubled = 1_u32
            .checked_shl(count - 1)
            .and_then(|factor| patience.first.checked_mul(factor));
        window(self.since + doubled.unwrap_or(patience.most).min(patience.most))
    }
}

fn window(moment: Moment) -> Moment {
    Duration::from_secs(moment.as_secs() / WINDOW.as_secs() * WINDOW.as_secs())
}
