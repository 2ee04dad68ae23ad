//! Metrics with labels.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use parking_lot::RwLock;

/// The maximum number of series of a metric. Label values are bounded by the served API; this limit covers a label that is not.
const MAX_SERIES: usize = 20_000;

/// Metrics by labels, like Prometheus' `MetricVec`. An existing series is found with a read lock and without allocation.
#[derive(Debug)]
pub struct MetricVec<F, const N: usize> {
    labels: [&'static str; N],
    hasher: RandomState,
    make: fn() -> F,
    series: RwLock<HashMap<u64, Vec<Arc<MetricSeries<F, N>>>>>,
}

/// A metric with its label values.
#[derive(Debug)]
pub struct MetricSeries<F, const N: usize> {
    /// The values of the labels, in the order of the labels.
    pub values: [Box<str>; N],
    /// What is counted.
    pub metrics: F,
}

// --- MetricVec ---

impl<F, const N: usize> MetricVec<F, N> {
    /// Without series. `make` makes the metrics of a new one.
    pub fn new(labels: [&'static str; N], make: fn() -> F) -> Self {
        MetricVec {
            labels,
            hasher: RandomState::new(),
            make,
            series: RwLock::default(),
        }
    }

    /// The series with these label values.
    pub fn of(&self, values: [&str; N]) -> Arc<MetricSeries<F, N>> {
        let hash = self.hasher.hash_one(values);
        let all = self.series.read();
        if let Some(found) = all.get(&hash).and_then(|series| find(series, values)) {
            return found;
        }
        let is_full = all.len() >= MAX_SERIES;
        drop(all);
        if is_full && values.iter().any(|value| *value != "other") {
            return self.of(["other"; N]);
        }
        let mut all = self.series.write();
        let series = all.entry(hash).or_default();
        find(series, values).unwrap_or_else(|| {
            let made = Arc::new(MetricSeries {
                values: values.map(Into::into),
                metrics: (self.make)(),
            });
            series.push(Arc::clone(&made));
            made
        })
    }

    /// All of them, in the order of their values.
    pub fn all(&self) -> Vec<Arc<MetricSeries<F, N>>> {
        let all = self.series.read();
        let sorted: BTreeMap<_, _> = all
            .values()
            .flatten()
            .map(|series| (series.values.clone(), Arc::clone(series)))
            .collect();
        sorted.into_values().collect()
    }

    /// The labels of a series, with its values.
    pub fn named<'s>(&self, series: &'s MetricSeries<F, N>) -> [(&'static str, &'s str); N] {
        std::array::from_fn(|position| (self.labels[position], &*series.values[position]))
    }
}

fn find<F, const N: usize>(
    series: &[Arc<MetricSeries<F, N>>],
    values: [&str; N],
) -> Option<Arc<MetricSeries<F, N>>> {
    let is_it = |series: &&Arc<MetricSeries<F, N>>| {
        series
            .values
            .iter()
            .zip(values)
            .all(|(known, value)| **known == *value)
    };
    series.iter().find(is_it).cloned()
}

#[cfg(test)]
mod tests {
    use super::{super::Counter, *};

    #[test]
    fn same_labels_share_a_series() {
        let table = MetricVec::new(["verb", "code"], Counter::default);
        table.of(["GET", "200"]).metrics.count();
        table.of(["GET", "200"]).metrics.count();
        table.of(["GET", "404"]).metrics.count();
        let counts: Vec<_> = table
            .all()
            .iter()
            .map(|series| (table.named(series), series.metrics.get()))
            .map(|(named, count)| (named[1].1.to_owned(), count))
            .collect();
        assert_eq!(counts, [("200".to_owned(), 2), ("404".to_owned(), 1)]);
    }

    #[test]
    fn series_count_is_bounded() {
        let table = MetricVec::new(["name"], Counter::default);
        for number in 0..MAX_SERIES + 100 {
            table.of([&number.to_string()]).metrics.count();
        }
        assert_eq!(table.all().len(), MAX_SERIES + 1);
        assert_eq!(table.of(["other"]).metrics.get(), 100);
    }
}
