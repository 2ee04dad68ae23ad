//! What a node is short of, and for how long it says so.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{Threshold, signal::Condition};
use crate::agent::node::Pressures;

/// When each shortage was last seen.
#[derive(Debug, Default)]
pub(super) struct Shortages {
    seen: BTreeMap<Condition, Instant>,
}

impl Shortages {
    /// What is told, now that these thresholds are met. A shortage is told for a while after it has gone: otherwise pods would
    /// come and go with it.
    pub(super) fn step(&mut self, met: &[Threshold], now: Instant, transition: Duration) -> Pressures {
        for threshold in met {
            self.seen.insert(threshold.signal.condition(), now);
        }
        self.seen
            .retain(|_, seen| now.saturating_duration_since(*seen) < transition || *seen == now);
        let has = |condition| self.seen.contains_key(&condition);
        Pressures {
            memory: has(Condition::Memory),
            disk: has(Condition::Disk),
            processes: has(Condition::Pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Signal, *};

    #[tokio::test(start_paused = true)]
    async fn a_shortage_is_told_for_a_while_after_it_has_gone() {
        let mut shortages = Shortages::default();
        let begin = Instant::now();
        let transition = Duration::from_mins(5);
        let after = |seconds| begin + Duration::from_secs(seconds);
        let low = [Threshold {
            signal: Signal::MemoryAvailable,
            least: super::super::Least::Amount(1),
        }];
        assert_eq!(shortages.step(&[], after(0), transition), Pressures::default());
        let memory = Pressures {
            memory: true,
            ..Pressures::default()
        };
        assert_eq!(shortages.step(&low, after(10), transition), memory);
        assert_eq!(shortages.step(&[], after(309), transition), memory);
        assert_eq!(shortages.step(&[], after(310), transition), Pressures::default());
    }
}
