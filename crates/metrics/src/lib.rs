//! Counters, gauges and histograms with labels, and their Prometheus text.
//!
//! Promises: counting takes no contended lock, and no allocation once a series exists; numbers and bounds are written as the Go
//! client writes them.

mod metric;
mod metric_vec;
mod text;

pub use self::{
    metric::{Counter, Gauge, Histogram, HistogramBuckets, HistogramSnapshot},
    metric_vec::{MetricSeries, MetricVec},
    text::{ExpositionText, Number},
};
