//! Request metrics.

use std::{sync::Arc, time::Duration};

use k3_metrics::{Counter, ExpositionText, Gauge, Histogram, MetricSeries, MetricVec};

use super::buckets::{ANSWER_BYTES, REQUEST_SECONDS};

/// The codes that answers have. Any other one is counted as [`OTHER`].
const CODES: [u16; 28] = [
    101, 200, 201, 202, 204, 206, 301, 302, 304, 307, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415,
    422, 429, 431, 500, 501, 503, 504,
];
/// The place of 500.
const OTHER: usize = 24;

/// Requests that are counted together: verb, dry run, group, version, resource, subresource and scope.
pub(crate) type RequestSeries = MetricSeries<RequestMetrics, 7>;

/// The labels of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestLabels<'l> {
    pub verb: &'l str,
    pub dry_run: &'l str,
    pub group: &'l str,
    pub version: &'l str,
    pub resource: &'l str,
    /// Of what is no resource, the path, if it is one of those that are served.
    pub subresource: &'l str,
    pub scope: &'l str,
}

/// The metrics of requests with the same labels.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    answers: [Counter; CODES.len()],
    took: Histogram,
    bytes: Histogram,
    /// How many that run long are running.
    pub running: Gauge,
    /// How many were refused or ended to protect the server, and how many were given up by their clients.
    pub refused: Counter,
    pub timed_out: Counter,
    pub aborted: Counter,
}

/// The metrics of all requests.
#[derive(Debug)]
pub(crate) struct RequestMetricsVec(MetricVec<RequestMetrics, 7>);

// --- RequestMetricsVec ---

impl Default for RequestMetricsVec {
    fn default() -> Self {
        let labels = [
            "verb",
            "dry_run",
            "group",
            "version",
            "resource",
            "subresource",
            "scope",
        ];
        RequestMetricsVec(MetricVec::new(labels, RequestMetrics::new))
    }
}

/// Writes one series of a family, with its labels.
type WriteSeries<'w> = dyn Fn(&mut ExpositionText, &RequestMetrics, &[(&str, &str)]) + 'w;

impl RequestMetricsVec {
    /// The metrics of requests with these labels.
    pub(crate) fn of(&self, labels: RequestLabels<'_>) -> Arc<RequestSeries> {
        let RequestLabels {
            verb,
            dry_run,
            group,
            version,
            resource,
            subresource,
            scope,
        } = labels;
        self.0
            .of([verb, dry_run, group, version, resource, subresource, scope])
    }

    /// Writes all of them.
    pub(super) fn write(&self, out: &mut ExpositionText) {
        self.write_answers(out);
        self.write_ends(out);
    }

    fn each(&self, out: &mut ExpositionText, name: &str, kind: &str, help: &str, write: &WriteSeries<'_>) {
        out.metric_family(name, kind, help);
        for series in &self.0.all() {
            let mut labels = self.0.named(series).to_vec();
            labels.push(("component", "apiserver"));
            write(out, &series.metrics, &labels);
        }
    }

    /// How requests were answered, how long that took and how much it was.
    fn write_answers(&self, out: &mut ExpositionText) {
        let name = "apiserver_request_total";
        self.each(
            out,
            name,
            "counter",
            "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
            &|out, metrics, labels| {
                for (code, count) in CODES
                    .iter()
                    .zip(&metrics.answers)
                    .filter(|(_, count)| count.get() > 0)
                {
                    let code = code.to_string();
                    let mut labels = labels.to_vec();
                    labels.push(("code", &code));
                    out.sample(name, &labels, count.get());
                }
            },
        );
        let name = "apiserver_request_duration_seconds";
        self.each(
            out,
            name,
            "histogram",
            "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
            &|out, metrics, labels| {
                metrics.took.write(out, name, labels, 0);
            },
        );
        let name = "apiserver_request_sli_duration_seconds";
        // Nothing of what is left out there (webhooks, queues) is known apart; and what is only tried does not count.
        self.each(
            out,
            name,
            "histogram",
            "Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component.",
            &|out, metrics, labels| {
                if value(labels, "dry_run").is_empty() {
                    metrics.took.write(out, name, &without_dry_run(labels), 2);
                }
            },
        );
        let name = "apiserver_response_sizes";
        self.each(
            out,
            name,
            "histogram",
            "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
            &|out, metrics, labels| {
                if !metrics.bytes.is_empty() {
                    metrics.bytes.write(out, name, &without_dry_run(labels), 0);
                }
            },
        );
    }

    /// Which requests go on, and which were ended.
    fn write_ends(&self, out: &mut ExpositionText) {
        let name = "apiserver_longrunning_requests";
        self.each(
            out,
            name,
            "gauge",
            "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. Not all requests are tracked this way.",
            &|out, metrics, labels| {
                if matches!(value(labels, "verb"), "WATCH" | "CONNECT") {
                    out.sample(name, &without_dry_run(labels), metrics.running.get());
                }
            },
        );
        let name = "apiserver_request_terminations_total";
        self.each(
            out,
            name,
            "counter",
            "Number of requests which apiserver terminated in self-defense.",
            &|out, metrics, labels| {
                for (code, count) in [("429", metrics.refused.get()), ("504", metrics.timed_out.get())] {
                    if count > 0 {
                        let mut labels = without_dry_run(labels);
                        labels.push(("code", code));
                        out.sample(name, &labels, count);
                    }
                }
            },
        );
        let name = "apiserver_request_aborts_total";
        self.each(
            out,
            name,
            "counter",
            "Number of requests which apiserver aborted possibly due to a timeout, for each group, version, verb, resource, subresource and scope",
            &|out, metrics, labels| {
                if metrics.aborted.get() > 0 {
                    let labels: Vec<_> = without_dry_run(labels)
                        .into_iter()
                        .filter(|(name, _)| *name != "component")
                        .collect();
                    out.sample(name, &labels, metrics.aborted.get());
                }
            },
        );
    }
}

fn value<'l>(labels: &[(&str, &'l str)], wanted: &str) -> &'l str {
    labels
        .iter()
        .find(|(name, _)| *name == wanted)
        .map_or("", |(_, value)| value)
}

fn without_dry_run<'l>(labels: &[(&'l str, &'l str)]) -> Vec<(&'l str, &'l str)> {
    labels
        .iter()
        .copied()
        .filter(|(name, _)| *name != "dry_run")
        .collect()
}

// --- RequestMetrics ---

impl RequestMetrics {
    fn new() -> Self {
        RequestMetrics {
            answers: Default::default(),
            took: Histogram::new(&REQUEST_SECONDS),
            bytes: Histogram::new(&ANSWER_BYTES),
            running: Gauge::default(),
            refused: Counter::default(),
            timed_out: Counter::default(),
            aborted: Counter::default(),
        }
    }

    /// Records a response. Response sizes are recorded for reads only.
    pub(crate) fn answered(&self, code: u16, time: Duration, bytes: Option<u64>) {
        let position = CODES.iter().position(|known| *known == code).unwrap_or(OTHER);
        self.answers[position].count();
        self.took.took(time);
        if let Some(bytes) = bytes {
            self.bytes.observe(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_requests_by_code_and_latency() {
        let requests = RequestMetricsVec::default();
        let labels = RequestLabels {
            verb: "GET",
            version: "v1",
            resource: "pods",
            scope: "resource",
            ..RequestLabels::default()
        };
        let series = requests.of(labels);
        series.metrics.answered(200, Duration::from_millis(3), Some(1500));
        requests
            .of(labels)
            .metrics
            .answered(404, Duration::from_millis(3), Some(100));
        series.metrics.answered(599, Duration::from_millis(3), None);
        series.metrics.refused.count();
        let mut out = ExpositionText::default();
        requests.write(&mut out);
        let text = out.finish();
        let common =
            r#"group="",version="v1",resource="pods",subresource="",scope="resource",component="apiserver""#;
        for line in [
            format!(r#"apiserver_request_total{{verb="GET",dry_run="",{common},code="200"}} 1"#),
            format!(r#"apiserver_request_total{{verb="GET",dry_run="",{common},code="404"}} 1"#),
            format!(r#"apiserver_request_total{{verb="GET",dry_run="",{common},code="500"}} 1"#),
            format!(
                r#"apiserver_request_duration_seconds_bucket{{verb="GET",dry_run="",{common},le="0.005"}} 3"#
            ),
            format!(r#"apiserver_request_sli_duration_seconds_bucket{{verb="GET",{common},le="0.05"}} 3"#),
            format!(r#"apiserver_response_sizes_bucket{{verb="GET",{common},le="1000"}} 1"#),
            format!(r#"apiserver_request_terminations_total{{verb="GET",{common},code="429"}} 1"#),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(!text.contains(r#"code="403""#), "{text}");
    }
}
