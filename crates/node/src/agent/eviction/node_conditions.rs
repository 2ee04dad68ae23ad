//! Pressure conditions with their transition period.
// upstream: pkg/kubelet/eviction/helpers.go nodeConditionsLastObservedAt, nodeConditionsObservedSince

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{EvictionThreshold, signal::PressureKind};
use crate::agent::node::NodePressures;

/// When each kind of pressure was last observed.
#[derive(Debug, Default)]
pub(super) struct ObservedConditions {
    last_observed: BTreeMap<PressureKind, Instant>,
}

impl ObservedConditions {
    /// Updates the conditions for the thresholds that are met. A condition holds for the transition period after the pressure has
    /// ended: otherwise it would flap, and the scheduler would place pods that are evicted again.
    pub(super) fn update(
        &mut self,
        met: &[EvictionThreshold],
        now: Instant,
        transition: Duration,
    ) -> NodePressures {
        for threshold in met {
            self.last_observed.insert(threshold.signal.pressure_kind(), now);
        }
        self.last_observed
            .retain(|_, at| now.saturating_duration_since(*at) < transition || *at == now);
        let has = |condition| self.last_observed.contains_key(&condition);
        NodePressures {
            memory: has(PressureKind::Memory),
            disk: has(PressureKind::Disk),
            pid: has(PressureKind::Pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::EvictionSignal, *};

    #[tokio::test(start_paused = true)]
    async fn condition_holds_for_transition_period() {
        let mut observed_conditions = ObservedConditions::default();
        let begin = Instant::now();
        let transition = Duration::from_mins(5);
        let after = |seconds| begin + Duration::from_secs(seconds);
        let low = [EvictionThreshold {
            signal: EvictionSignal::MemoryAvailable,
            value: super::super::ThresholdValue::Quantity(1),
        }];
        assert_eq!(
            observed_conditions.update(&[], after(0), transition),
            NodePressures::default()
        );
        let memory = NodePressures {
            memory: true,
            ..NodePressures::default()
        };
        assert_eq!(observed_conditions.update(&low, after(10), transition), memory);
        assert_eq!(observed_conditions.update(&[], after(309), transition), memory);
        assert_eq!(
            observed_conditions.update(&[], after(310), transition),
            NodePressures::default()
        );
    }
}
