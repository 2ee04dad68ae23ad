//! The table of settings.
//!
//! | key | what it does |
//! | --- | --- |
//! | `reconcilermgr.*` | the program: addresses, leader election, which cluster |
//! | `enabled`, `controllers` | which controllers run: `[ats]`, or `"*,-dummy"`; names of controllers or of their resources |
//! | `resource-filter.<resource>` | which objects a controller looks at: `default/a*`, `~^team-[0-9]+/`, `labels: app=web`; see [`filter`](crate::controller::KeyFilter) |
//! | `dependencies.<controller>` | what a controller waits for: `redis:6379`, or the name of another controller |
//! | `workers`, `queueConfig.*`, `reconcileConfig.*` | how controllers work |
//! | `informerConfig.*` | how informers work |
//! | `log.*` | what is logged, and how |
//!
//! From the environment come `INFORMER_CACHE_SIZE` (an informer with more objects than that is not healthy, and the program
//! does not start: memory does not grow without end), `LIST_TIMEOUT` (a list that brings nothing new for so long is asked for
//! again) and `ENABLE_INCREMENTAL_SYNC` (the first objects come one by one with the watch instead of as a list).
//!
//! In a file, dots are levels. Settings that would have no effect are not taken: of the API extension server
//! (`apiextmgr.*`, `reconcilermgr.apiserver-enabled: true`) unless the program has one and names its settings.

use std::path::PathBuf;

use super::{
    Config, LogFormat,
    values::{address, level, names, number, parse_duration, some_time, switch, time_or_none},
};
use crate::{
    controller::KeyFilter,
    manager::{selection::ControllerSelection, start_condition::StartCondition},
};

/// One setting.
pub(in crate::manager) struct Setting {
    /// Its name in the file, with dots. A `<name>` at the end stands for any.
    pub(super) key: &'static str,
    /// Its flag, without the dashes, beside `--` and the key.
    pub(super) flag: &'static str,
    /// Its variable in the environment.
    pub(super) env: Option<&'static str>,
    /// What it is for.
    pub(super) help: &'static str,
    /// What the value looks like; empty for a switch.
    pub(super) value: &'static str,
    /// Takes the value; the second argument is what stands for `<name>`.
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

    /// The setting of a key, and what stands for `<name>` in it.
    pub(super) fn find(key: &str) -> Option<(&'static Setting, &str)> {
        KEYS.iter().find_map(|setting| match setting.family() {
            None => (setting.key == key).then_some((setting, "")),
            Some(family) => {
                let name = key.strip_prefix(family).filter(|name| !name.is_empty())?;
                Some((setting, name))
            }
        })
    }

    /// What comes before `<name>`.
    pub(super) fn family(&self) -> Option<&'static str> {
        self.key.split_once('<').map(|(family, _)| family)
    }

    /// Another key of the same setting.
    pub(super) fn twin(&self) -> Option<&'static str> {
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
        "Address of the API server, instead of the one in the kubeconfig",
        |c, _, v| {
            let is_url = v
                .parse::<http::Uri>()
                .is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
            if !is_url && !v.is_empty() {
                return Err(format!(
                    "{v:?} is not an address: want http://HOST:PORT or https://HOST:PORT"
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
        "ManagerContext of the kubeconfig",
        |c, _, v| {
            c.cluster.context = Some(v.to_owned()).filter(|v| !v.is_empty());
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.metrics-bind-address",
        "metrics-bind-address",
        "ADDRESS",
        "Serve /metrics here; default: nowhere",
        |c, _, v| {
            c.metrics_address = address(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.health-probe-bind-address",
        "health-probe-bind-address",
        "ADDRESS",
        "Serve /healthz and /readyz here; default: nowhere",
        |c, _, v| {
            c.health_address = address(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.profiling",
        "profiling",
        "",
        "Serve /debug/pprof with health, to callers on this machine",
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
        "How long a stop may take; default: 30s",
        |c, _, v| {
            c.grace = parse_duration(v).map_err(|bad| bad.to_string())?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.concurrence",
        "concurrence",
        "N",
        "The same as workers",
        |c, _, v| {
            c.controller.workers = number(v, 1)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.portable",
        "portable",
        "",
        "Leave out what needs a whole cluster",
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
        "Run controllers only while this process is the leader",
        |c, _, v| {
            c.leader.elect = switch(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.leader-elect-lease-duration",
        "leader-elect-lease-duration",
        "DURATION",
        "When others may take over after the last renewal; default: 15s",
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
        "When a leader that cannot renew stops; default: 10s",
        |c, _, v| {
            c.leader.renew_deadline = some_time(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.leader-elect-retry-period",
        "leader-elect-retry-period",
        "DURATION",
        "How often the lease is renewed or looked at; default: 2s",
        |c, _, v| {
            c.leader.retry = some_time(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.leader-elect-resource-name",
        "leader-elect-resource-name",
        "NAME",
        "Name of the lease; default: that of the program",
        |c, _, v| {
            c.leader.name = Some(v.to_owned()).filter(|v| !v.is_empty());
            Ok(())
        },
    ),
    setting(
        "reconcilermgr.leader-elect-resource-namespace",
        "leader-elect-resource-namespace",
        "NAME",
        "Namespace of the lease; default: that of the credentials",
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
        "Look only at these objects: glob on NAMESPACE/NAME, ~REGEX, !NOT, `labels: SELECTOR`, with ; between them",
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
        "Start the controller when these answer: HOST:PORT, or names of controllers",
        |c, name, v| {
            let gates: Result<_, _> = names(v).iter().map(|gate| StartCondition::parse(gate)).collect();
            c.dependencies.insert(name.to_owned(), gates?);
            Ok(())
        },
    ),
    setting(
        "workers",
        "workers",
        "N",
        "How many objects a controller works on at once; default: 4 or the cores",
        |c, _, v| {
            c.controller.workers = number(v, 1)?;
            Ok(())
        },
    ),
    setting(
        "queueConfig.maxRetries",
        "max-retries",
        "N",
        "Drop a key after so many retries; default: never",
        |c, _, v| {
            c.controller.max_retries = Some(number(v, 0)?);
            Ok(())
        },
    ),
    setting(
        "queueConfig.baseDelay",
        "base-delay",
        "DURATION",
        "How long a key waits after its first failure; default: 5ms",
        |c, _, v| {
            c.controller.base_delay = some_time(v)?;
            Ok(())
        },
    ),
    setting(
        "queueConfig.maxDelay",
        "max-delay",
        "DURATION",
        "How long a key waits at most; default: 1000s",
        |c, _, v| {
            c.controller.max_delay = some_time(v)?;
            Ok(())
        },
    ),
    setting(
        "queueConfig.rateLimiterQPS",
        "rate-limiter-qps",
        "N",
        "How many keys per second a controller works on; default: no limit but 10 retries",
        |c, _, v| {
            let qps: f64 = v.parse().map_err(|_| format!("{v:?} is not a number"))?;
            if !(qps.is_finite() && qps > 0.0) {
                return Err("must be more than nothing".to_owned());
            }
            c.controller.qps = Some(qps);
            Ok(())
        },
    ),
    setting(
        "reconcileConfig.timeout",
        "reconcile-timeout",
        "DURATION",
        "How long one reconcile may take; default: no limit",
        |c, _, v| {
            c.controller.timeout = time_or_none(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcileConfig.resyncPeriod",
        "resync-period",
        "DURATION",
        "Look at all objects again so often; default: never",
        |c, _, v| {
            c.informer.resync = time_or_none(v)?;
            Ok(())
        },
    ),
    setting(
        "reconcileConfig.maxConcurrent",
        "max-concurrent",
        "N",
        "How many reconciles of a controller run at once at most: no controller gets more workers",
        |c, _, v| {
            c.controller.max_concurrent = Some(number(v, 1)?);
            Ok(())
        },
    ),
    setting(
        "informerConfig.cacheSize",
        "informer-cache-size",
        "N",
        "How many objects an informer keeps at most; default: no limit",
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
        "How long a list may take",
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
        "Take the first objects as events of the watch where the server can; default: false",
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
        "Give up if the first lists take longer; default: 2m",
        |c, _, v| {
            c.informer.sync_timeout = some_time(v)?;
            Ok(())
        },
    ),
    setting(
        "log.level",
        "log-level",
        "LEVEL",
        "error, warn, info, debug or trace; default: info",
        |c, _, v| {
            c.log.level = level(v)?;
            Ok(())
        },
    ),
    setting(
        "log.development",
        "",
        "",
        "The same as level debug with callers",
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
        "console or json; default: console",
        |c, _, v| {
            c.log.format = match v {
                "console" => LogFormat::Console,
                "json" => LogFormat::Json,
                _ => return Err(format!("{v:?} is neither console nor json")),
            };
            Ok(())
        },
    ),
    setting(
        "log.name",
        "",
        "NAME",
        "A name that every line carries",
        |c, _, v| {
            c.log.name = Some(v.to_owned()).filter(|v| !v.is_empty());
            Ok(())
        },
    ),
    setting(
        "log.enable-color",
        "",
        "",
        "Lines have no colours: only false is taken",
        |_, _, v| {
            if switch(v)? {
                return Err("lines have no colours".to_owned());
            }
            Ok(())
        },
    ),
    setting(
        "log.disable-caller",
        "",
        "",
        "Do not say which line of code wrote a line; default: true",
        |c, _, v| {
            c.log.caller = !switch(v)?;
            Ok(())
        },
    ),
    setting(
        "log.disable-stacktrace",
        "",
        "",
        "Log panics without their stack; default: false",
        |c, _, v| {
            c.log.stacktrace = !switch(v)?;
            Ok(())
        },
    ),
    setting(
        "log.output-paths",
        "",
        "PATH",
        "stdout, stderr or a file; default: stderr",
        |c, _, v| {
            let [output] = &names(v)[..] else {
                return Err("want one path".to_owned());
            };
            output.clone_into(&mut c.log.output);
            Ok(())
        },
    ),
    setting(
        "log.error-output-paths",
        "",
        "PATH",
        "Where what goes wrong with logging is told: only stderr is taken",
        |_, _, v| {
            if v == "stderr" {
                return Ok(());
            }
            Err("only stderr is taken".to_owned())
        },
    ),
];
