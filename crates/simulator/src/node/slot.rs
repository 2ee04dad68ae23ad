//! Time slots that spread the periodic work of all nodes evenly, whenever each node was added.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// The time slots of a periodic task.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSlots {
    pub(super) period: Duration,
    /// The number of nodes.
    pub(super) count: u32,
}

impl NodeSlots {
    /// The start of the current period of a node.
    pub(super) fn last(self, number: u32, now: Timestamp) -> Timestamp {
        let period = i128::try_from(self.period.as_nanos()).unwrap_or(i128::MAX);
        let offset = period / i128::from(self.count.max(1)) * i128::from(number);
        let since = (now.as_nanosecond() - offset).rem_euclid(period);
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        now - Duration::from_nanos(since)
    }

    /// The start of the next period of a node.
    pub(super) fn next(self, number: u32, now: Timestamp) -> Timestamp {
        self.last(number, now) + self.period
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_spread_evenly() {
        let slots = NodeSlots {
            period: Duration::from_secs(10),
            count: 1000,
        };
        let now: Timestamp = "2026-01-01T00:00:03.123456789Z".parse().unwrap();
        let mut in_next_second = 0;
        for number in 0..1000 {
            let last = slots.last(number, now);
            let next = slots.next(number, now);
            assert!(last <= now && now < next, "{last} {now} {next}");
            assert_eq!(slots.last(number, next), next);
            in_next_second += u32::from(next <= now + Duration::from_secs(1));
        }
        assert!((99..=101).contains(&in_next_second), "{in_next_second}");
    }
}
