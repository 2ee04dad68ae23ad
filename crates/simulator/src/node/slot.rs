//! When it is a node's turn: periodic work of nodes is spread evenly over time, whenever each was added.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// Periodic turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSlots {
    pub(super) period: Duration,
    /// How many nodes take turns.
    pub(super) count: u32,
}

impl NodeSlots {
    /// When the last turn of a node was.
    pub(super) fn last(self, number: u32, now: Timestamp) -> Timestamp {
        let period = i128::try_from(self.period.as_nanos()).unwrap_or(i128::MAX);
        let offset = period / i128::from(self.count.max(1)) * i128::from(number);
        let since = (now.as_nanosecond() - offset).rem_euclid(period);
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        now - Duration::from_nanos(since)
    }

    /// When its next turn is.
    pub(super) fn next(self, number: u32, now: Timestamp) -> Timestamp {
        self.last(number, now) + self.period
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_spread_evenly() {
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
