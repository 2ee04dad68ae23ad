//! What there must be left.

use std::str::FromStr;

use k3_quantity::Quantity;

use super::{
    Signal,
    signal::{Observation, Observations},
};

/// How much of a thing must be left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Of what.
    pub signal: Signal,
    /// How much.
    pub least: Least,
}

/// An amount, or a part of what there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Least {
    /// Bytes, or pieces.
    Amount(u64),
    /// A part in a thousand.
    PerMille(u16),
}

// --- Least ---

impl Least {
    /// How much that is of a whole.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Least::Amount(amount) => amount,
            Least::PerMille(part) => {
                let amount = u128::from(whole) * u128::from(part) / 1000;
                u64::try_from(amount).unwrap_or(u64::MAX)
            }
        }
    }
}

// --- Threshold ---

impl Threshold {
    /// Those that hold where nobody says otherwise.
    pub fn defaults() -> Vec<Threshold> {
        let thresholds = [
            (Signal::MemoryAvailable, Least::Amount(100 << 20)),
            (Signal::NodeFsAvailable, Least::PerMille(100)),
            (Signal::ImageFsAvailable, Least::PerMille(150)),
            (Signal::NodeFsInodesFree, Least::PerMille(50)),
            (Signal::ImageFsInodesFree, Least::PerMille(50)),
        ];
        thresholds
            .map(|(signal, least)| Threshold { signal, least })
            .into()
    }

    pub(super) fn is_met(&self, seen: &Observation) -> bool {
        // A file system that counts no inodes has none left, and needs none.
        seen.capacity > 0 && seen.available < self.least.of(seen.capacity)
    }
}

/// Those of the thresholds that are met, memory first.
pub(super) fn met(thresholds: &[Threshold], seen: &Observations) -> Vec<Threshold> {
    let met = thresholds.iter().filter(|threshold| {
        let seen = seen.get(&threshold.signal);
        seen.is_some_and(|seen| threshold.is_met(seen))
    });
    let mut met: Vec<Threshold> = met.copied().collect();
    met.sort_by_key(|threshold| threshold.signal != Signal::MemoryAvailable);
    met
}

impl FromStr for Threshold {
    type Err = String;

    /// As `memory.available<100Mi` or `nodefs.available<10%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (signal, least) = text.split_once('<').ok_or_else(|| format!("{text} has no <"))?;
        let wrong = || format!("{least} in {text} is no amount");
        let least = if let Some(percent) = least.trim().strip_suffix('%') {
            let (whole, part) = percent.split_once('.').unwrap_or((percent, "0"));
            let whole: u16 = whole.parse().map_err(|_| wrong())?;
            let part: u16 = part.get(..1).unwrap_or("0").parse().map_err(|_| wrong())?;
            let part = whole.checked_mul(10).and_then(|whole| whole.checked_add(part));
            Least::PerMille(part.filter(|part| *part < 1000).ok_or_else(wrong)?)
        } else {
            let amount: Quantity = least.trim().parse().map_err(|_| wrong())?;
            Least::Amount(u64::try_from(amount.value()).map_err(|_| wrong())?)
        };
        Ok(Threshold {
            signal: signal.trim().parse()?,
            least,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read() {
        for (text, signal, least) in [
            (
                "memory.available<100Mi",
                Signal::MemoryAvailable,
                Least::Amount(100 << 20),
            ),
            (
                "nodefs.available<10%",
                Signal::NodeFsAvailable,
                Least::PerMille(100),
            ),
            ("pid.available<0.5%", Signal::PidAvailable, Least::PerMille(5)),
        ] {
            assert_eq!(text.parse(), Ok(Threshold { signal, least }));
        }
        for wrong in [
            "memory.available",
            "memory.available<x",
            "x<1",
            "nodefs.available<200%",
        ] {
            assert!(wrong.parse::<Threshold>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_short_is_found_memory_first() {
        let thresholds = [
            Threshold {
                signal: Signal::NodeFsAvailable,
                least: Least::PerMille(100),
            },
            Threshold {
                signal: Signal::MemoryAvailable,
                least: Least::Amount(100),
            },
            Threshold {
                signal: Signal::NodeFsInodesFree,
                least: Least::PerMille(50),
            },
        ];
        let seen = |capacity, available| Observation { capacity, available };
        let observations = |memory, disk| {
            Observations::from([
                (Signal::MemoryAvailable, seen(1000, memory)),
                (Signal::NodeFsAvailable, seen(1000, disk)),
                (Signal::NodeFsInodesFree, seen(0, 0)),
            ])
        };
        let signals = |memory, disk| {
            let met = met(&thresholds, &observations(memory, disk));
            met.into_iter()
                .map(|threshold| threshold.signal)
                .collect::<Vec<_>>()
        };
        assert_eq!(signals(100, 100), []);
        assert_eq!(signals(99, 100), [Signal::MemoryAvailable]);
        assert_eq!(
            signals(99, 99),
            [Signal::MemoryAvailable, Signal::NodeFsAvailable]
        );
    }
}
