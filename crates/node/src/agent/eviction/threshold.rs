//! Hard eviction thresholds.
// upstream: pkg/kubelet/eviction/api/types.go Threshold, ThresholdValue

use std::str::FromStr;

use k3_quantity::Quantity;

use super::{
    EvictionSignal,
    signal::{SignalObservation, SignalObservations, UnknownSignalError},
};

/// A threshold: pods are evicted while less than `value` is available.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionThreshold {
    /// Observed signal.
    pub signal: EvictionSignal,
    /// Least available amount.
    pub value: ThresholdValue,
}

/// An absolute amount, or a part of the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ThresholdValue {
    /// Bytes, inodes or processes.
    Quantity(u64),
    /// Thousandths of the capacity.
    PerMille(u16),
}

/// Why a threshold cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseThresholdError {
    /// The text has no value.
    #[error("invalid eviction threshold {0:?}: missing `<`")]
    NoValue(String),
    /// The value is invalid.
    #[error("invalid eviction threshold {threshold:?}: {value:?} is neither a quantity nor a percentage")]
    InvalidValue {
        /// The threshold.
        threshold: String,
        /// Its value.
        value: String,
    },
    /// The signal is unknown.
    #[error(transparent)]
    Signal(#[from] UnknownSignalError),
}

// --- ThresholdValue ---

impl ThresholdValue {
    /// The absolute amount for a capacity.
    // upstream: pkg/kubelet/eviction/api/types.go GetThresholdQuantity
    pub fn resolve(self, capacity: u64) -> u64 {
        match self {
            ThresholdValue::Quantity(amount) => amount,
            ThresholdValue::PerMille(part) => {
                let amount = u128::from(capacity) * u128::from(part) / 1000;
                u64::try_from(amount).unwrap_or(u64::MAX)
            }
        }
    }
}

// --- EvictionThreshold ---

impl EvictionThreshold {
    /// The default thresholds.
    // upstream: pkg/kubelet/apis/config/v1beta1/defaults.go SetDefaults_KubeletConfiguration; DefaultEvictionHard
    pub fn defaults() -> Vec<EvictionThreshold> {
        let thresholds = [
            (
                EvictionSignal::MemoryAvailable,
                ThresholdValue::Quantity(100 << 20),
            ),
            (EvictionSignal::NodeFsAvailable, ThresholdValue::PerMille(100)),
            (EvictionSignal::ImageFsAvailable, ThresholdValue::PerMille(150)),
            (EvictionSignal::NodeFsInodesFree, ThresholdValue::PerMille(50)),
            (EvictionSignal::ImageFsInodesFree, ThresholdValue::PerMille(50)),
        ];
        thresholds
            .map(|(signal, value)| EvictionThreshold { signal, value })
            .into()
    }

    pub(super) fn is_met(&self, observation: &SignalObservation) -> bool {
        // Some file systems, such as btrfs, report 0 inodes.
        observation.capacity > 0 && observation.available < self.value.resolve(observation.capacity)
    }
}

/// The thresholds that are met; memory first.
// upstream: pkg/kubelet/eviction/helpers.go thresholdsMet, byEvictionPriority
pub(super) fn thresholds_met(
    thresholds: &[EvictionThreshold],
    observations: &SignalObservations,
) -> Vec<EvictionThreshold> {
    let met = thresholds.iter().filter(|threshold| {
        let observation = observations.get(&threshold.signal);
        observation.is_some_and(|observation| threshold.is_met(observation))
    });
    let mut met: Vec<EvictionThreshold> = met.copied().collect();
    met.sort_by_key(|threshold| threshold.signal != EvictionSignal::MemoryAvailable);
    met
}

impl FromStr for EvictionThreshold {
    type Err = ParseThresholdError;

    /// Parses `memory.available<100Mi` or `nodefs.available<10%`.
    fn from_str(text: &str) -> Result<Self, ParseThresholdError> {
        let (signal, value) = text
            .split_once('<')
            .ok_or_else(|| ParseThresholdError::NoValue(text.to_owned()))?;
        let invalid = || ParseThresholdError::InvalidValue {
            threshold: text.to_owned(),
            value: value.to_owned(),
        };
        let value = if let Some(percent) = value.trim().strip_suffix('%') {
            let (whole, part) = percent.split_once('.').unwrap_or((percent, "0"));
            let whole: u16 = whole.parse().map_err(|_| invalid())?;
            let part: u16 = part.get(..1).unwrap_or("0").parse().map_err(|_| invalid())?;
            let part = whole.checked_mul(10).and_then(|whole| whole.checked_add(part));
            ThresholdValue::PerMille(part.filter(|part| *part < 1000).ok_or_else(invalid)?)
        } else {
            let amount: Quantity = value.trim().parse().map_err(|_| invalid())?;
            ThresholdValue::Quantity(u64::try_from(amount.value()).map_err(|_| invalid())?)
        };
        Ok(EvictionThreshold {
            signal: signal.trim().parse()?,
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_thresholds() {
        for (text, signal, value) in [
            (
                "memory.available<100Mi",
                EvictionSignal::MemoryAvailable,
                ThresholdValue::Quantity(100 << 20),
            ),
            (
                "nodefs.available<10%",
                EvictionSignal::NodeFsAvailable,
                ThresholdValue::PerMille(100),
            ),
            (
                "pid.available<0.5%",
                EvictionSignal::PidAvailable,
                ThresholdValue::PerMille(5),
            ),
        ] {
            assert_eq!(text.parse(), Ok(EvictionThreshold { signal, value }));
        }
        for wrong in [
            "memory.available",
            "memory.available<x",
            "x<1",
            "nodefs.available<200%",
        ] {
            assert!(wrong.parse::<EvictionThreshold>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn finds_met_thresholds_memory_first() {
        let thresholds = [
            EvictionThreshold {
                signal: EvictionSignal::NodeFsAvailable,
                value: ThresholdValue::PerMille(100),
            },
            EvictionThreshold {
                signal: EvictionSignal::MemoryAvailable,
                value: ThresholdValue::Quantity(100),
            },
            EvictionThreshold {
                signal: EvictionSignal::NodeFsInodesFree,
                value: ThresholdValue::PerMille(50),
            },
        ];
        let observation = |capacity, available| SignalObservation { capacity, available };
        let observations = |memory, disk| {
            SignalObservations::from([
                (EvictionSignal::MemoryAvailable, observation(1000, memory)),
                (EvictionSignal::NodeFsAvailable, observation(1000, disk)),
                (EvictionSignal::NodeFsInodesFree, observation(0, 0)),
            ])
        };
        let signals = |memory, disk| {
            let met = thresholds_met(&thresholds, &observations(memory, disk));
            met.into_iter()
                .map(|threshold| threshold.signal)
                .collect::<Vec<_>>()
        };
        assert_eq!(signals(100, 100), []);
        assert_eq!(signals(99, 100), [EvictionSignal::MemoryAvailable]);
        assert_eq!(
            signals(99, 99),
            [EvictionSignal::MemoryAvailable, EvictionSignal::NodeFsAvailable]
        );
    }
}
