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
//! Environment variables: `INFORMER_CACHE_SIZE` (an informer with more objects becomes unhealthy, and the program does not
//! start; this bounds the memory), `LIST_TIMEOUT` (a list request without progress for this long is retried) and
//! `ENABLE_INCREMENTAL_SYNC` (initial objects are streamed by the watch instead of listed).
//!
//! In a file, dots are levels. Settings that would have no effect are rejected: those of the API extension server
//! (`apiextmgr.*`, `reconcilermgr.apiserver-enabled: true`) are valid only in programs that declare them.

use std::path::PathBuf;

use super::{
    Config, LogFormat,
    values::{address, level, names, number, parse_duration, some_time, switch, time_or_none},
};
use crate::{
    controller::KeyFilter,
    manager::{selection::ControllerSelection, start_condition::StartCondition},
};

/// An entry of the table of settings.
pub(in crate::manager) struct Setting {
    /// The key in the file, with dots for levels. A trailing `<name>` is a wildcard.
    pub(super) key: &'static str,
    /// The name of the flag, an alternative to `--` and the key.
    pub(super) flag: &'static str,
    /// The environment variable.
    pub(super) env: Option<&'static str>,
    /// The help text.
    pub(super) help: &'static str,
    /// The placeholder for the value in the help; empty for booleans.
    pub(super) value: &'static str,
    /// Validates and stores the value; the second argument is the part of the key that matches the wildcard.
    pub(super) set: fn(&mut Config, &str, &str) -> Result<(), String>,
}

const fn setting(
    key: &'static str,
    flag: &'static str,
    value: &'static str,
    help: &'static str,
    set: fn(&mut Config, &str, &str) -> Result<(), String>,
) -> Setting {
    Setting {
        key,
        flag,
        env: None,
        help,
        value,
        set,
    }
}

impl Setting {
    const fn env(mut self, name: &'static str) -> Self {
        self.env = Some(name);
        self
    }

    /// Finds the setting of a key, and the part of the key that matches its wildcard.
    pub(super) fn find(key: &str) -> Option<(&'static Setting, &str)> {
        KEYS.iter().find_map(|setting| match setting.key_prefix() {
            None => (setting.key == key).then_some((setting, "")),
            Some(prefix) => {
                let name = key.strip_prefix(prefix).filter(|name| !name.is_empty())?;
                Some((setting, name))
            }
        })
    }

    /// The part of the key before its wildcard; none without wildcard.
    pub(super) fn key_prefix(&self) -> Option<&'static str> {
        self.key.split_once('<').map(|(prefix, _)| prefix)
    }

    /// The other key of a setting with two keys.
    pub(super) fn alias(&self) -> Option<&'static str> {
        match self.key {
            "workers" => Some("reconcilermgr.concurrence"),
            "reconcilermgr.concurrence" => Some("workers"),
            _ => None,
        }
    }
}

/// All settings.
pub(in crate::manager) const KEYS: &[Setting] = &[
    setting(
        "reconcilermgr.kubeconfig",
        "kubeconfig",
        "FILE",
        "Credentials of the cluster; default: as kubectl, or the service account",
        |c, _, v| {
            c.cluster.kubeconfig = Some(v).filter(|v| !v.is_empty()).map(PathBuf::from);
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.master",
        "master",
        "URL",
        "Path to a kubeconfig; default: like kubectl, or the service account of the pod",
        |c, _, v| {
            let is_url = v
                .parse::<http::Uri>()
                .is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
            if !is_url && !v.is_empty() {
                return Err(format!(
                    "{v:?} is not a URL: expected http://HOST:PORT or https://HOST:PORT"
                ));
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
            c.metrics_address = address(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.health-probe-bind-address",
        "health-probe-bind-address",
        "ADDRESS",
        "Address that serves /healthz and /readyz; default: none",
        |c, _, v| {
            c.health_address = address(v)?;
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
                return Err("this program was built without the feature `pprof`".to_owned());
            }
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.graceful-shutdown-timeout",
        "graceful-shutdown-timeout",
        "DURATION",
        "Time for a graceful shutdown; default: 30s",
        |c, _, v| {
            c.grace = parse_duration(v).map_err(|bad| bad.to_string())?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.concurrence",
        "concurrence",
        "N",
        "Alias of workers",
        |c, _, v| {
            c.controller.workers = number(v, 1)?;
            Ok(())
        },
    ),
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
                return Err("this program has no API extension server".to_owned());
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
        "Time after the last renewal when another process may become leader; default: 15s",
        |c, _, v| {
            c.leader.duration = some_time(v)?;
            if c.leader.duration.subsec_nanos() > 0 {
                return Err("must be whole seconds".to_owned());
            }
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.leader-elect-renew-deadline",
        "leader-elect-renew-deadline",
        "DURATION",
        "Time after which a leader that cannot renew its lease stops leading; default: 10s",
        |c, _, v| {
            c.leader.renew_deadline = some_time(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.leader-elect-retry-period",
        "leader-elect-retry-period",
        "DURATION",
        "Interval between renewals, or attempts to acquire the lease; default: 2s",
        |c, _, v| {
            c.leader.retry = some_time(v)?;
            Ok(())
        },
    ),
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
    ),
    setting(
        "controllers",
        "controllers",
        "NAMES",
        "Run these controllers: `*` all, `-x` not x, `x` x; default: *",
        |c, _, v| {
            c.selection = ControllerSelection::parse(&names(v))?;
            Ok(())
        },
    ),
    setting(
        "resource-filter.<resource>",
        "",
        "FILTER",
        "Handle only matching objects: glob on NAMESPACE/NAME, ~REGEX, !NEGATION, `labels: SELECTOR`, separated by ;",
        |c, name, v| {
            v.parse::<KeyFilter>().map_err(|bad| bad.to_string())?;
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
            c.dependencies.insert(name.to_owned(), conditions?);
            Ok(())
        },
    ),
    setting(
        "workers",
        "workers",
        "N",
        "Number of workers per controller; default: number of CPUs, at most 4",
        |c, _, v| {
            c.controller.workers = number(v, 1)?;
            Ok(())
        },
    ),
    setting(
        "queueConfig.maxRetries",
        "max-retries",
        "N",
        "Number of retries after which a key is dropped; default: unlimited",
        |c, _, v| {
            c.controller.max_retries = Some(number(v, 0)?);
            Ok(())
        },
    ),
    setting(
        "queueConfig.baseDelay",
        "base-delay",
        "DURATION",
        "Backoff after the first failure of a key; default: 5ms",
        |c, _, v| {
            c.controller.base_delay = some_time(v)?;
            Ok(())
        },
    ),
    setting(
        "queueConfig.maxDelay",
        "max-delay",
        "DURATION",
        "Maximal backoff of a key; default: 1000s",
        |c, _, v| {
            c.controller.max_delay = some_time(v)?;
            Ok(())
        },
    ),
    setting(
        "queueConfig.rateLimiterQPS",
        "rate-limiter-qps",
        "N",
        "Rate limit of a controller in keys per second; default: 10 for retries, else unlimited",
        |c, _, v| {
            let qps: f64 = v.parse().map_err(|_| format!("{v:?} is not a number"))?;
            if !(qps.is_finite() && qps > 0.0) {
                return Err("must be greater than 0".to_owned());
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
            c.controller.timeout = time_or_none(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcileConfig.resyncPeriod",
        "resync-period",
        "DURATION",
        "Resync period of informers; default: none",
        |c, _, v| {
            c.informer.resync = time_or_none(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcileConfig.maxConcurrent",
        "max-concurrent",
        "N",
        "Upper limit of workers per controller; default: none",
        |c, _, v| {
            c.controller.max_concurrent = Some(number(v, 1)?);
            Ok(())
        },
    ),
    setting(
        "informerConfig.cacheSize",
        "informer-cache-size",
        "N",
        "Maximal number of objects per informer; default: unlimited",
        |c, _, v| {
            c.informer.cache_size = Some(number(v, 1)?);
            Ok(())
        },
    )
    .env("INFORMER_CACHE_SIZE"),
    setting(
        "informerConfig.listTimeout",
        "list-timeout",
        "DURATION",
        "Timeout of a list request without progress",
        |c, _, v| {
            c.informer.list_timeout = Some(some_time(v)?);
            Ok(())
        },
    )
    .env("LIST_TIMEOUT"),
    setting(
        "informerConfig.incrementalSync",
        "enable-incremental-sync",
        "",
        "Stream initial objects with the watch if the server supports it; default: false",
        |c, _, v| {
            c.informer.incremental_sync = switch(v)?;
            Ok(())
        },
    )
    .env("ENABLE_INCREMENTAL_SYNC"),
    setting(
        "informerConfig.syncTimeout",
        "sync-timeout",
        "DURATION",
        "Timeout for the initial sync of all informers; default: 2m",
        |c, _, v| {
            c.informer.sync_timeout = some_time(v)?;
            Ok(())
        },
    ),
    setting(
        "log.level",
        "log-level",
        "LEVEL",
        "Log level: error, warn, info, debug or trace; default: info",
        |c, _, v| {
            c.log.level = level(v)?;
            Ok(())
        },
    ),
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
        "Format of log lines: console or json; default: console",
        |c, _, v| {
            c.log.format = match v {
                "console" => LogFormat::Console,
                "json" => LogFormat::Json,
                _ => return Err(format!("{v:?} is neither console nor json")),
            };
            Ok(())
        },
    ),
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
                return Err("colored output is not supported".to_owned());
            }
            Ok(())
        },
    ),
    setting(
        "log.disable-caller",
        "",
        "",
        "Omit file and line of the call; default: true",
        |c, _, v| {
            c.log.caller = !switch(v)?;
            Ok(())
        },
    ),
    setting(
        "log.disable-stacktrace",
        "",
        "",
        "Log panics without a backtrace; default: false",
        |c, _, v| {
            c.log.stacktrace = !switch(v)?;
            Ok(())
        },
    ),
    setting(
        "log.output-paths",
        "",
        "PATH",
        "Output of the log: stdout, stderr or the path of a file; default: stderr",
        |c, _, v| {
            let [output] = &names(v)[..] else {
                return Err("expected exactly one path".to_owned());
            };
            output.clone_into(&mut c.log.output);
            Ok(())
        },
    ),
    setting(
        "log.error-output-paths",
        "",
        "PATH",
        "Output of errors of the log itself: only stderr is accepted",
        |_, _, v| {
            if v == "stderr" {
                return Ok(());
            }
            Err("only stderr is accepted".to_owned())
        },
    ),
];
