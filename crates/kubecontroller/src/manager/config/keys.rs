//! The table of settings.
//!
//! | key | meaning |
//! | --- | --- |
//! | `reconcilermgr.*` | the program: addresses, leader election, connection to the API server |
//! | `enabled`, `controllers` | the controllers that run: `[ats]`, or `"*,-dummy"`; names of controllers or of their resources |
//! | `resource-filter.<resource>` | the objects that a controller handles: `default/a*`, `~^team-[0-9]+/`, `labels: app=web`; see [`KeyFilter`] |
//! | `dependencies.<controller>` | what a controller waits for before its start: `redis:6379`, or the name of another controller |
//! | `workers`, `queueConfig.*`, `reconcileConfig.*` | defaults for controllers |
//! | `informerConfig.*` | defaults for informers |
//! | `log.*` | the log |
//!
//! Variables: `INFORMER_CACHE_SIZE` (an informer with more objects becomes unhealthy, and the program does not
//! start; this bounds the memory), `LIST_TIMEOUT` (a list request without progress for this long is retried) and
//! `ENABLE_INCREMENTAL_SYNC` (initial objects are streamed by the watch instead of listed).
//!
//! In a file, dots are levels. Settings that would have no effect are rejected: those of the API extension server
//! (`apiextmgr.*`, `reconcilermgr.apiserver-enabled: true`) are valid only in programs that declare them.
//!
//! # All keys
//!
//! Generated, as `--print-config=markdown` prints it. `--print-config=example` prints a file with all keys, their meanings and
//! defaults, `--print-config` the effective configuration with the source of each value.
//!
#![doc = include_str!("keys.md")]

use std::path::PathBuf;

use k3_config::{
    Alias, ValueError, listen_address, names, optional_duration, parse_duration, positive_duration, switch,
    whole_number,
};

use super::{
    LogFormat,
    log_level::parse_level,
    settings::{Setting, setting},
};
use crate::{
    controller::KeyFilter,
    manager::{selection::ControllerSelection, start_condition::StartCondition},
};

/// Other names of keys, a line each.
pub(super) const ALIASES: &[Alias] = &[
    Alias::key("reconcilermgr.concurrence", "workers"),
    Alias::flag("concurrence", "workers"),
    Alias::variable("INFORMER_CACHE_SIZE", "informerConfig.cacheSize"),
    Alias::variable("LIST_TIMEOUT", "informerConfig.listTimeout"),
    Alias::variable("ENABLE_INCREMENTAL_SYNC", "informerConfig.incrementalSync"),
];

/// All settings.
pub(super) const SETTINGS: &[Setting] = &[
    setting(
        "reconcilermgr.kubeconfig",
        "kubeconfig",
        "FILE",
        "Path to a kubeconfig; default: as kubectl, or the service account of the pod",
        |c, _, v| {
            c.cluster.kubeconfig = Some(v).filter(|v| !v.is_empty()).map(PathBuf::from);
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.master",
        "master",
        "URL",
        "URL of the API server; default: that of the kubeconfig",
        |c, _, v| {
            let is_url = v
                .parse::<http::Uri>()
                .is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
            if !is_url && !v.is_empty() {
                return Err(ValueError::other(format!(
                    "{v:?} is not a URL: expected http://HOST:PORT or https://HOST:PORT"
                )));
            }
            c.cluster.master = Some(v.to_owned()).filter(|v| !v.is_empty());
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.context",
        "context",
        "NAME",
        "Context of the kubeconfig; default: the current context",
        |c, _, v| {
            c.cluster.context = Some(v.to_owned()).filter(|v| !v.is_empty());
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.metrics-bind-address",
        "metrics-bind-address",
        "ADDRESS",
        "Address that serves /metrics; default: none",
        |c, _, v| {
            c.metrics_address = listen_address(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.health-probe-bind-address",
        "health-probe-bind-address",
        "ADDRESS",
        "Address that serves /healthz and /readyz; default: none",
        |c, _, v| {
            c.health_address = listen_address(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.profiling",
        "profiling",
        "",
        "Serve /debug/pprof on the health address, to local callers only",
        |c, _, v| {
            c.profiling = switch(v)?;
            if c.profiling && !cfg!(feature = "pprof") {
                return Err(ValueError::other(
                    "this program was built without the feature `pprof`",
                ));
            }
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.graceful-shutdown-timeout",
        "graceful-shutdown-timeout",
        "DURATION",
        "Time for a graceful shutdown",
        |c, _, v| {
            c.grace = parse_duration(v)?;
            Ok(())
        },
    )
    .default("30s"),
    setting(
        "reconcilermgr.portable",
        "portable",
        "",
        "Disable controllers that need a complete cluster",
        |c, _, v| {
            c.portable = switch(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.apiserver-enabled",
        "apiserver-enabled",
        "",
        "Start the API extension server, in programs that have one",
        |_, _, v| {
            if switch(v)? {
                return Err(ValueError::other("this program has no API extension server"));
            }
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.leader-elect",
        "leader-elect",
        "",
        "Enable leader election: run controllers only while this process is the leader",
        |c, _, v| {
            c.leader.elect = switch(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.leader-elect-lease-duration",
        "leader-elect-lease-duration",
        "DURATION",
        "Time after the last renewal when another process may become leader",
        |c, _, v| {
            c.leader.duration = positive_duration(v)?;
            if c.leader.duration.subsec_nanos() > 0 {
                return Err(ValueError::NotWholeSeconds);
            }
            Ok(())
        },
    )
    .default("15s"),
    setting(
        "reconcilermgr.leader-elect-renew-deadline",
        "leader-elect-renew-deadline",
        "DURATION",
        "Time after which a leader that cannot renew its lease stops leading",
        |c, _, v| {
            c.leader.renew_deadline = positive_duration(v)?;
            Ok(())
        },
    )
    .default("10s"),
    setting(
        "reconcilermgr.leader-elect-retry-period",
        "leader-elect-retry-period",
        "DURATION",
        "Interval between renewals, or attempts to acquire the lease",
        |c, _, v| {
            c.leader.retry = positive_duration(v)?;
            Ok(())
        },
    )
    .default("2s"),
    setting(
        "reconcilermgr.leader-elect-resource-name",
        "leader-elect-resource-name",
        "NAME",
        "Name of the lease; default: name of the program",
        |c, _, v| {
            c.leader.name = Some(v.to_owned()).filter(|v| !v.is_empty());
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.leader-elect-resource-namespace",
        "leader-elect-resource-namespace",
        "NAME",
        "Namespace of the lease; default: namespace of the client",
        |c, _, v| {
            c.leader.namespace = Some(v.to_owned()).filter(|v| !v.is_empty());
            Ok(())
        },
    ),
    setting(
        "enabled",
        "enabled",
        "NAMES",
        "Run only these controllers; default: all",
        |c, _, v| {
            c.selection = ControllerSelection::only(names(v));
            Ok(())
        },
    )
    .lists(),
    setting(
        "controllers",
        "controllers",
        "NAMES",
        "Run these controllers: `*` all, `-x` not x, `x` x; default: *",
        |c, _, v| {
            c.selection = ControllerSelection::parse(&names(v)).map_err(ValueError::other)?;
            Ok(())
        },
    )
    .lists(),
    setting(
        "resource-filter.<resource>",
        "",
        "FILTER",
        "Handle only matching objects: glob on NAMESPACE/NAME, ~REGEX, !NEGATION, `labels: SELECTOR`, separated by ;",
        |c, name, v| {
            v.parse::<KeyFilter>().map_err(ValueError::other)?;
            c.filters.insert(name.to_owned(), v.to_owned());
            Ok(())
        },
    ),
    setting(
        "dependencies.<controller>",
        "",
        "LIST",
        "Start the controller only when these are ready: HOST:PORT, or names of controllers",
        |c, name, v| {
            let conditions: Result<_, _> = names(v)
                .iter()
                .map(|condition| StartCondition::parse(condition))
                .collect();
            c.dependencies
                .insert(name.to_owned(), conditions.map_err(ValueError::other)?);
            Ok(())
        },
    )
    .lists(),
    setting(
        "workers",
        "workers",
        "N",
        "Number of workers per controller; default: number of CPUs, at most 4",
        |c, _, v| {
            c.controller.workers = whole_number(v, 1)?;
            Ok(())
        },
    ),
    setting(
        "queueConfig.maxRetries",
        "max-retries",
        "N",
        "Number of retries after which a key is dropped; default: unlimited",
        |c, _, v| {
            c.controller.max_retries = Some(whole_number(v, 0)?);
            Ok(())
        },
    ),
    setting(
        "queueConfig.baseDelay",
        "base-delay",
        "DURATION",
        "Backoff after the first failure of a key",
        |c, _, v| {
            c.controller.base_delay = positive_duration(v)?;
            Ok(())
        },
    )
    .default("5ms"),
    setting(
        "queueConfig.maxDelay",
        "max-delay",
        "DURATION",
        "Maximal backoff of a key",
        |c, _, v| {
            c.controller.max_delay = positive_duration(v)?;
            Ok(())
        },
    )
    .default("1000s"),
    setting(
        "queueConfig.rateLimiterQPS",
        "rate-limiter-qps",
        "N",
        "Rate limit of a controller in keys per second; default: 10 for retries, else unlimited",
        |c, _, v| {
            let qps: f64 = v.parse().map_err(|_| ValueError::NotANumber(v.to_owned()))?;
            if !(qps.is_finite() && qps > 0.0) {
                return Err(ValueError::NotPositive);
            }
            c.controller.qps = Some(qps);
            Ok(())
        },
    ),
    setting(
        "reconcileConfig.timeout",
        "reconcile-timeout",
        "DURATION",
        "Timeout of one reconcile; default: none",
        |c, _, v| {
            c.controller.timeout = optional_duration(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcileConfig.resyncPeriod",
        "resync-period",
        "DURATION",
        "Resync period of informers; default: none",
        |c, _, v| {
            c.informer.resync = optional_duration(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcileConfig.maxConcurrent",
        "max-concurrent",
        "N",
        "Upper limit of workers per controller; default: none",
        |c, _, v| {
            c.controller.max_concurrent = Some(whole_number(v, 1)?);
            Ok(())
        },
    ),
    setting(
        "informerConfig.cacheSize",
        "informer-cache-size",
        "N",
        "Maximal number of objects per informer; default: unlimited",
        |c, _, v| {
            c.informer.cache_size = Some(whole_number(v, 1)?);
            Ok(())
        },
    ),
    setting(
        "informerConfig.listTimeout",
        "list-timeout",
        "DURATION",
        "Timeout of a list request without progress",
        |c, _, v| {
            c.informer.list_timeout = Some(positive_duration(v)?);
            Ok(())
        },
    ),
    setting(
        "informerConfig.incrementalSync",
        "enable-incremental-sync",
        "",
        "Stream initial objects with the watch if the server supports it",
        |c, _, v| {
            c.informer.incremental_sync = switch(v)?;
            Ok(())
        },
    ),
    setting(
        "informerConfig.syncTimeout",
        "sync-timeout",
        "DURATION",
        "Timeout for the initial sync of all informers",
        |c, _, v| {
            c.informer.sync_timeout = positive_duration(v)?;
            Ok(())
        },
    )
    .default("2m"),
    setting(
        "log.level",
        "log-level",
        "LEVEL",
        "Log level: error, warn, info, debug or trace",
        |c, _, v| {
            c.log.level = parse_level(v)?;
            Ok(())
        },
    )
    .default("info"),
    setting(
        "log.development",
        "",
        "",
        "Log at level debug, with callers",
        |c, _, v| {
            if switch(v)? {
                c.log.level = tracing::Level::DEBUG;
                c.log.caller = true;
            }
            Ok(())
        },
    ),
    setting(
        "log.format",
        "log-format",
        "FORMAT",
        "Format of log lines: console or json",
        |c, _, v| {
            c.log.format = match v {
                "console" => LogFormat::Console,
                "json" => LogFormat::Json,
                _ => return Err(ValueError::other(format!("{v:?} is neither console nor json"))),
            };
            Ok(())
        },
    )
    .default("console"),
    setting("log.name", "", "NAME", "Logger name in every line", |c, _, v| {
        c.log.name = Some(v.to_owned()).filter(|v| !v.is_empty());
        Ok(())
    }),
    setting(
        "log.enable-color",
        "",
        "",
        "Not supported: only false is accepted",
        |_, _, v| {
            if switch(v)? {
                return Err(ValueError::other("colored output is not supported"));
            }
            Ok(())
        },
    ),
    setting(
        "log.disable-caller",
        "",
        "",
        "Omit file and line of the call",
        |c, _, v| {
            c.log.caller = !switch(v)?;
            Ok(())
        },
    )
    .default("true"),
    setting(
        "log.disable-stacktrace",
        "",
        "",
        "Log panics without a backtrace",
        |c, _, v| {
            c.log.stacktrace = !switch(v)?;
            Ok(())
        },
    ),
    setting(
        "log.output-paths",
        "",
        "PATH",
        "Output of the log: stdout, stderr or the path of a file",
        |c, _, v| {
            let [output] = &names(v)[..] else {
                return Err(ValueError::other("expected exactly one path"));
            };
            output.clone_into(&mut c.log.output);
            Ok(())
        },
    )
    .lists()
    .default("stderr"),
    setting(
        "log.error-output-paths",
        "",
        "PATH",
        "Output of errors of the log itself: only stderr is accepted",
        |_, _, v| {
            if v == "stderr" {
                return Ok(());
            }
            Err(ValueError::other("only stderr is accepted"))
        },
    ),
    setting(
        "apiextmgr.<key>",
        "",
        "VALUE",
        "The API extension server, in programs that have one",
        |_, _, _| Err(ValueError::other("this program has no API extension server")),
    )
    .unlisted(),
];
