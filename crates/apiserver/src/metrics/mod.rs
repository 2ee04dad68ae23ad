//! Metrics of the server, under upstream's names.
//!
//! ```text
//! buckets     the buckets of histograms
//! requests    request metrics
//! process     process metrics from the kernel
//! ```
//!
//! Promises: counting takes no contended lock, and no allocation once a series exists. Label values are bounded: names of users
//! and objects are never labels, and neither are paths that are not served.

mod buckets;
mod process;
mod requests;

use std::time::Duration;

use k3_metrics::{Counter, ExpositionText, Gauge, Histogram, MetricSeries, MetricVec};
use k3_storage::{CommitError, Revision};
use serde_json::Value;

use self::buckets::{EVENT_BYTES, REQUEST_SECONDS, STEP_SECONDS};
pub(crate) use self::requests::{RequestLabels, RequestMetricsVec, RequestSeries};
use crate::{cache::WatchCaches, discovery};

/// All metrics of the server.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub requests: RequestMetricsVec,
    /// Requests that are being served, and those that were refused because there were too many: reads, then writes.
    pub in_flight: [Gauge; 2],
    pub dropped: [Counter; 2],
    /// Panics that were caught.
    pub panics: Counter,
    pub tls_errors: Counter,
    pub audit: AuditMetrics,
    authentications: MetricVec<Counter, 1>,
    users: MetricVec<Counter, 1>,
    authorizations: MetricVec<Counter, 1>,
    watches: MetricVec<WatchMetrics, 3>,
    storage: MetricVec<StorageMetrics, 3>,
    admission: MetricVec<Histogram, 3>,
    health: MetricVec<HealthMetrics, 2>,
}

/// Metrics of the audit log.
#[derive(Debug, Default)]
pub(crate) struct AuditMetrics {
    /// Events that were to be written, and those of them that were not.
    pub events: Counter,
    pub lost: Counter,
    /// Requests by the level of the rule that they met: None, Metadata, Request, `RequestResponse`.
    pub levels: [Counter; 4],
}

/// Metrics of the watches of a resource.
#[derive(Debug)]
pub(crate) struct WatchMetrics {
    events: Counter,
    bytes: Histogram,
}

/// The metrics of the watches of one resource.
pub(crate) type WatchSeries = MetricSeries<WatchMetrics, 3>;

#[derive(Debug)]
struct StorageMetrics {
    took: Histogram,
    failed: Counter,
}

#[derive(Debug, Default)]
struct HealthMetrics {
    is_well: Gauge,
    successes: Counter,
    failures: Counter,
}

// --- Metrics ---

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            requests: RequestMetricsVec::default(),
            in_flight: Default::default(),
            dropped: Default::default(),
            panics: Counter::default(),
            tls_errors: Counter::default(),
            audit: AuditMetrics::default(),
            authentications: MetricVec::new(["result"], Counter::default),
            users: MetricVec::new(["username"], Counter::default),
            authorizations: MetricVec::new(["result"], Counter::default),
            watches: MetricVec::new(["group", "version", "resource"], || WatchMetrics {
                events: Counter::default(),
                bytes: Histogram::new(&EVENT_BYTES),
            }),
            storage: MetricVec::new(["operation", "group", "resource"], || StorageMetrics {
                took: Histogram::new(&REQUEST_SECONDS),
                failed: Counter::default(),
            }),
            admission: MetricVec::new(["type", "operation", "rejected"], || {
                Histogram::new(&STEP_SECONDS)
            }),
            health: MetricVec::new(["name", "type"], HealthMetrics::default),
        }
    }
}

impl Metrics {
    /// Counts an authentication; the user name is reduced to a few values.
    pub(crate) fn authenticated(&self, user: Option<&str>) {
        let Some(name) = user else {
            return self.authentications.of(["failure"]).metrics.count();
        };
        self.authentications.of(["success"]).metrics.count();
        let value = match name {
            "admin" | "client" | "kube_proxy" | "kubelet" | "system:serviceaccount:kube-system:default" => {
                name
            }
            name if name.contains('@') => "email_id",
            _ => "other",
        };
        self.users.of([value]).metrics.count();
    }

    /// Counts an authorization decision.
    pub(crate) fn authorized<T, E>(&self, decision: &Result<T, E>) {
        let result = match decision {
            Ok(_) => "allowed",
            Err(_) => "no-opinion",
        };
        self.authorizations.of([result]).metrics.count();
    }

    /// The metrics of the watches of a resource.
    pub(crate) fn watches(&self, group: &str, version: &str, resource: &str) -> std::sync::Arc<WatchSeries> {
        self.watches.of([group, version, resource])
    }

    /// The store was asked.
    pub(crate) fn stored(
        &self,
        operation: &str,
        key: &str,
        took: Duration,
        committed: &Result<Revision, CommitError>,
    ) {
        let mut parts = key.split('/').skip(2);
        let group = parts.next().unwrap_or_default();
        let resource = parts.next().unwrap_or_default();
        let group = if group == "core" { "" } else { group };
        let series = self.storage.of([operation, group, resource]);
        series.metrics.took.took(took);
        // A conflict is an answer of the store.
        if matches!(committed, Err(error) if !matches!(error, CommitError::Conflict(_))) {
            series.metrics.failed.count();
        }
    }

    /// A step of admission was done.
    pub(crate) fn admitted<E>(&self, step: &str, operation: &str, outcome: &Result<(), E>, took: Duration) {
        let rejected = match outcome {
            Ok(()) => "false",
            Err(_) => "true",
        };
        self.admission.of([step, operation, rejected]).metrics.took(took);
    }

    /// A health check was made.
    pub(crate) fn checked<E>(&self, name: &str, endpoint: &str, result: &Result<(), E>) {
        let is_well = result.is_ok();
        let metrics = &self.health.of([name, endpoint]).metrics;
        metrics.is_well.add(i64::from(is_well) - metrics.is_well.get());
        if is_well {
            metrics.successes.count();
        } else {
            metrics.failures.count();
        }
    }

    /// All metrics in text format.
    pub(crate) fn text(&self, caches: &WatchCaches) -> String {
        let mut out = ExpositionText::default();
        self.requests.write(&mut out);
        self.write_self_defense(&mut out);
        self.write_access(&mut out);
        self.write_audit(&mut out);
        self.write_watches(&mut out);
        self.write_storage(&mut out, caches);
        build(&mut out);
        process::write(&mut out);
        out.finish()
    }

    /// The metrics of `/metrics/slis`.
    pub(crate) fn slis(&self) -> String {
        let mut out = ExpositionText::default();
        let all = self.health.all();
        let name = "kubernetes_healthcheck";
        out.metric_family(
            name,
            "gauge",
            "This metric records the result of a single healthcheck.",
        );
        for series in &all {
            out.sample(name, &self.health.named(series), series.metrics.is_well.get());
        }
        let name = "kubernetes_healthchecks_total";
        out.metric_family(
            name,
            "counter",
            "This metric records the results of all healthcheck.",
        );
        for series in &all {
            let counts = [
                ("success", &series.metrics.successes),
                ("error", &series.metrics.failures),
            ];
            for (status, count) in counts.into_iter().filter(|(_, count)| count.get() > 0) {
                let [name_label, type_label] = self.health.named(series);
                out.sample(name, &[name_label, type_label, ("status", status)], count.get());
            }
        }
        out.finish()
    }

    fn write_self_defense(&self, out: &mut ExpositionText) {
        let kinds = ["readOnly", "mutating"];
        let name = "apiserver_current_inflight_requests";
        out.metric_family(name, "gauge", "Maximal number of currently used inflight request limit of this apiserver per request kind in last second.");
        for (kind, gauge) in kinds.iter().zip(&self.in_flight) {
            out.sample(name, &[("request_kind", kind)], gauge.get());
        }
        let name = "apiserver_dropped_requests_total";
        out.metric_family(
            name,
            "counter",
            "Number of requests dropped with 'Try again later' response",
        );
        for (kind, count) in kinds.iter().zip(&self.dropped) {
            out.sample(name, &[("request_kind", kind)], count.get());
        }
        let help = "Number of requests dropped with 'TLS handshake error from' error";
        out.single(
            "apiserver_tls_handshake_errors_total",
            "counter",
            help,
            self.tls_errors.get(),
        );
        let help = "Panics that were caught: each ended one request, and nothing else.";
        out.single("apiserver_panics_total", "counter", help, self.panics.get());
    }

    fn write_access(&self, out: &mut ExpositionText) {
        counters(
            out,
            &self.authentications,
            "authentication_attempts",
            "Counter of authenticated attempts.",
        );
        counters(
            out,
            &self.users,
            "authenticated_user_requests",
            "Counter of authenticated requests broken out by username.",
        );
        counters(
            out,
            &self.authorizations,
            "authorization_attempts_total",
            "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
        );
        let name = "apiserver_admission_step_admission_duration_seconds";
        out.metric_family(name, "histogram", "Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit).");
        for series in self.admission.all() {
            series.metrics.write(out, name, &self.admission.named(&series), 0);
        }
    }

    fn write_audit(&self, out: &mut ExpositionText) {
        let metrics = &self.audit;
        out.single(
            "apiserver_audit_event_total",
            "counter",
            "Counter of audit events generated and sent to the audit backend.",
            metrics.events.get(),
        );
        let name = "apiserver_audit_error_total";
        out.metric_family(name, "counter", "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error.");
        out.sample(name, &[("plugin", "log")], metrics.lost.get());
        // A request is never refused because its event cannot be written.
        out.single(
            "apiserver_audit_requests_rejected_total",
            "counter",
            "Counter of apiserver requests rejected due to an error in audit logging backend.",
            0,
        );
        let name = "apiserver_audit_level_total";
        out.metric_family(
            name,
            "counter",
            "Counter of policy levels for audit events (1 per request).",
        );
        for (level, count) in ["None", "Metadata", "Request", "RequestResponse"]
            .iter()
            .zip(&metrics.levels)
        {
            out.sample(name, &[("level", level)], count.get());
        }
    }

    fn write_watches(&self, out: &mut ExpositionText) {
        let all = self.watches.all();
        let name = "apiserver_watch_events_total";
        out.metric_family(name, "counter", "Number of events sent in watch clients");
        for series in &all {
            out.sample(name, &self.watches.named(series), series.metrics.events.get());
        }
        let name = "apiserver_watch_events_sizes";
        out.metric_family(name, "histogram", "Watch event size distribution in bytes");
        for series in &all {
            series
                .metrics
                .bytes
                .write(out, name, &self.watches.named(series), 0);
        }
    }

    fn write_storage(&self, out: &mut ExpositionText, caches: &WatchCaches) {
        let all = self.storage.all();
        let name = "etcd_request_duration_seconds";
        out.metric_family(
            name,
            "histogram",
            "Etcd request latency in seconds for each operation and object type.",
        );
        for series in &all {
            series
                .metrics
                .took
                .write(out, name, &self.storage.named(series), 0);
        }
        let name = "etcd_request_errors_total";
        out.metric_family(
            name,
            "counter",
            "Etcd failed request counts for each operation and object type.",
        );
        for series in all.iter().filter(|series| series.metrics.failed.get() > 0) {
            out.sample(name, &self.storage.named(series), series.metrics.failed.get());
        }
        let name = "apiserver_resource_objects";
        out.metric_family(name, "gauge", "Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1.");
        let counts = caches.counts();
        for (group, resource, count) in &counts {
            out.sample(name, &[("group", group), ("resource", resource)], count);
        }
        let name = "apiserver_storage_objects";
        out.metric_family(name, "gauge", "[DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1.");
        for (group, resource, count) in &counts {
            let dotted = if group.is_empty() {
                resource.clone()
            } else {
                format!("{resource}.{group}")
            };
            out.sample(name, &[("resource", &dotted)], count);
        }
        let help = "The revision up to which the caches have everything that is stored.";
        out.single("k3_cache_revision", "gauge", help, caches.applied().get());
    }
}

fn counters<const N: usize>(out: &mut ExpositionText, table: &MetricVec<Counter, N>, name: &str, help: &str) {
    out.metric_family(name, "counter", help);
    for series in table.all() {
        out.sample(name, &table.named(&series), series.metrics.get());
    }
}

/// Build information, as `/version` reports it.
fn build(out: &mut ExpositionText) {
    let version = discovery::version();
    let labels = [
        ("build_date", "buildDate"),
        ("compiler", "compiler"),
        ("git_commit", "gitCommit"),
        ("git_tree_state", "gitTreeState"),
        ("git_version", "gitVersion"),
        ("go_version", "goVersion"),
        ("major", "major"),
        ("minor", "minor"),
        ("platform", "platform"),
    ];
    let labels = labels.map(|(label, field)| {
        (
            label,
            version.get(field).and_then(Value::as_str).unwrap_or_default(),
        )
    });
    let name = "kubernetes_build_info";
    out.metric_family(name, "gauge", "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.");
    out.sample(name, &labels, 1);
}

// --- WatchMetrics ---

impl WatchMetrics {
    /// An event was sent; or it waits to be converted, and is nothing yet.
    pub(crate) fn sent(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.events.count();
        self.bytes.observe(bytes as u64);
    }
}
