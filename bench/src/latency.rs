//! How long operations took.

use std::time::Duration;

use serde::Serialize;

/// Times of single operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    /// In nanoseconds; whatever took longer than four seconds counts as that.
    nanos: Vec<u32>,
}

/// What matters of them, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

// --- Latencies ---

impl Latencies {
    pub(crate) fn add(&mut self, took: Duration) {
        self.nanos
            .push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.nanos.append(&mut other.nanos);
    }

    pub(crate) fn count(&self) -> usize {
        self.nanos.len()
    }

    pub(crate) fn percentiles(mut self) -> Percentiles {
        self.nanos.sort_unstable();
        Percentiles {
            p50_us: self.at(50),
            p99_us: self.at(99),
        }
    }

    /// The time within which so many of a hundred were done; zero when there are none.
    fn at(&self, percent: usize) -> f64 {
        let rank = (self.nanos.len() * percent).div_ceil(100).saturating_sub(1);
        self.nanos
            .get(rank)
            .map_or(0.0, |nanos| f64::from(*nanos) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let mut latencies = Latencies::default();
        for micros in (1..=200).rev() {
            latencies.add(Duration::from_micros(micros));
        }
        let found = latencies.percentiles();
        assert_eq!((found.p50_us, found.p99_us), (100.0, 198.0));
        assert_eq!(
            Latencies::default().percentiles(),
            Percentiles {
                p50_us: 0.0,
                p99_us: 0.0
            }
        );
    }
}
