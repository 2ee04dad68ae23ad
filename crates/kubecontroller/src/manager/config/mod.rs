//! The configuration of a program: flags, environment variables, and a YAML file.
//!
//! Guarantees:
//! - Every setting is one line of one table ([`keys`]): its key in the file, its flag, its help, its validation. A key that is
//!   not in the table is an error.
//! - A flag overrides the environment, which overrides the file, which overrides the default. `--print-config` prints each value
//!   with its source.
//! - All errors are reported at once, with file, line and key, before the first connection.

mod flags;
pub mod keys;
mod log_level;
mod settings;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

pub use k3_config::ConfigError;
use k3_config::{ConfigFile, ConfiguredValue, EffectiveConfig, Environment};

use self::settings::Settings;
pub(super) use self::{
    flags::{CommandLine, CommandLineError, read},
    log_level::parse_level,
};
use super::{selection::ControllerSelection, start_condition::StartCondition};

/// The configuration of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The connection to the API server.
    pub cluster: ClusterConfig,
    /// The address that serves metrics. Default: none.
    pub metrics_address: Option<String>,
    /// The address that serves health checks. Default: none.
    pub health_address: Option<String>,
    /// Whether to serve profiles. Default: no.
    pub profiling: bool,
    /// The time for a graceful shutdown. Default: 30 s.
    pub grace: Duration,
    /// The controllers that run. Default: all.
    pub selection: ControllerSelection,
    /// Whether to disable controllers of resources that need a complete cluster. Default: no.
    pub portable: bool,
    /// Object filters by resource. Default: all objects.
    pub filters: BTreeMap<String, String>,
    /// Start conditions by name of a controller or resource.
    pub dependencies: BTreeMap<String, Vec<StartCondition>>,
    /// Defaults for controllers.
    pub controller: ControllerConfig,
    /// Defaults for informers.
    pub informer: InformerConfig,
    /// Leader election.
    pub leader: LeaderConfig,
    /// The log.
    pub log: LogConfig,
    /// The program's own settings by key; see [`App::setting`](super::App::setting).
    pub own: BTreeMap<String, String>,
}

/// The connection to the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Path to a kubeconfig. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// The URL of the API server, which overrides the one in the kubeconfig.
    pub master: Option<String>,
    /// The context of the kubeconfig. Default: its current context.
    pub context: Option<String>,
}

/// Defaults for controllers, which each controller can override.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerConfig {
    /// The number of workers per controller. Default: the number of CPUs, at most 4.
    pub workers: usize,
    /// The timeout of one reconcile. Default: none.
    pub timeout: Option<Duration>,
    /// The number of retries after which a key is dropped. Default: unlimited, as level-triggered controllers need.
    pub max_retries: Option<u32>,
    /// The backoff after the first failure of a key. Default: 5 ms.
    pub base_delay: Duration,
    /// The maximal backoff of a key. Default: 1000 s.
    pub max_delay: Duration,
    /// The upper limit of workers per controller. Default: none.
    pub max_concurrent: Option<usize>,
    /// The rate limit of a controller in keys per second. Default: retries only, 10 per second with a burst of 100.
    pub qps: Option<f64>,
}

/// Defaults for informers.
#[derive(Clone, Debug, PartialEq)]
pub struct InformerConfig {
    /// The resync period. Default: none.
    pub resync: Option<Duration>,
    /// The maximal number of objects per informer. Default: unlimited.
    pub cache_size: Option<usize>,
    /// The timeout of a list request. Default: that of the informer.
    pub list_timeout: Option<Duration>,
    /// Whether the initial objects are streamed by the watch (`sendInitialEvents`) if the server supports it. Default: no.
    pub incremental_sync: bool,
    /// The timeout for the initial sync of all caches. Default: 2 minutes.
    pub sync_timeout: Duration,
}

/// Leader election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderConfig {
    /// Whether leader election is enabled. Default: no; the process then runs leader-only runnables unconditionally.
    pub elect: bool,
    /// The name of the lease. Default: the name of the program.
    pub name: Option<String>,
    /// The namespace of the lease. Default: the namespace of the client.
    pub namespace: Option<String>,
    /// See [`LeaderElectionConfig`](crate::leader_election::LeaderElectionConfig). Default: 15 s.
    pub duration: Duration,
    /// Default: 10 s.
    pub renew_deadline: Duration,
    /// Default: 2 s.
    pub retry: Duration,
}

/// The log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The log level. Default: info.
    pub level: tracing::Level,
    /// The format of log lines. Default: console.
    pub format: LogFormat,
    /// A logger name that is part of every line.
    pub name: Option<String>,
    /// Whether lines contain file and line of the call. Default: no.
    pub caller: bool,
    /// Whether panics are logged with a backtrace. Default: yes.
    pub stacktrace: bool,
    /// The output: `stdout`, `stderr` or the path of a file. Default: `stderr`.
    pub output: String,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Plain text.
    Console,
    /// One JSON object per line.
    Json,
}

// --- Config ---

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Config {
            cluster: ClusterConfig::default(),
            metrics_address: None,
            health_address: None,
            profiling: false,
            grace: Duration::from_secs(30),
            selection: ControllerSelection::default(),
            portable: false,
            filters: BTreeMap::new(),
            dependencies: BTreeMap::new(),
            controller: ControllerConfig {
                workers: cores.min(4),
                timeout: None,
                max_retries: None,
                base_delay: Duration::from_millis(5),
                max_delay: Duration::from_secs(1000),
                max_concurrent: None,
                qps: None,
            },
            informer: InformerConfig {
                resync: None,
                cache_size: None,
                list_timeout: None,
                incremental_sync: false,
                sync_timeout: Duration::from_mins(2),
            },
            leader: LeaderConfig {
                elect: false,
                name: None,
                namespace: None,
                duration: Duration::from_secs(15),
                renew_deadline: Duration::from_secs(10),
                retry: Duration::from_secs(2),
            },
            log: LogConfig {
                level: tracing::Level::INFO,
                format: LogFormat::Console,
                name: None,
                caller: false,
                stacktrace: true,
                output: "stderr".to_owned(),
            },
            own: BTreeMap::new(),
        }
    }
}

impl Config {
    /// The value of one of the program's own settings; empty if the program does not declare it.
    pub fn controller_setting(&self, key: &str) -> &str {
        self.own.get(key).map_or("", String::as_str)
    }

    /// The value of one of the program's own settings as a duration, e.g. `30s`; none if it is empty.
    pub fn controller_duration(&self, key: &str) -> Result<Option<Duration>, ConfigError> {
        let text = Some(self.controller_setting(key)).filter(|text| !text.is_empty());
        let read = text.map(k3_config::parse_duration).transpose();
        read.map_err(|why| ConfigError {
            errors: vec![format!("{key}: {why}")],
        })
    }

    /// The value of one of the program's own settings as `true` or `false`; false if it is empty.
    pub fn controller_switch(&self, key: &str) -> Result<bool, ConfigError> {
        match self.controller_setting(key) {
            "" => Ok(false),
            text => k3_config::switch(text).map_err(|why| ConfigError {
                errors: vec![format!("{key}: {why}")],
            }),
        }
    }

    /// Parses a configuration file. `name` identifies the file in errors.
    pub fn from_yaml(name: &str, text: &str) -> Result<Self, ConfigError> {
        let settings = Settings::new(&[]);
        let file = ConfigFile {
            path: name.to_owned(),
            text: text.to_owned(),
        };
        let nothing = Environment {
            variable: &|_| None,
            names: &Vec::new,
        };
        let table = &settings.table;
        settings.config(EffectiveConfig::read(table, table, Some(&file), nothing, &[]))
    }
}

/// A setting that the program itself declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerSetting {
    /// The key in the file, with dots for levels, and the name of the flag.
    pub key: &'static str,
    /// The help text.
    pub help: &'static str,
    /// The default value.
    pub default: &'static str,
}

/// Finds values that are valid alone but contradict each other.
fn contradictions(config: &Config, values: &[ConfiguredValue]) -> Vec<String> {
    let mut errors = Vec::new();
    let find = |key: &str| values.iter().find(|value| value.name == key);
    let mut both = |first: &'static str, second: &'static str, why: &str| {
        let name = |key| find(key).map_or_else(|| format!("{key} (default)"), ToString::to_string);
        errors.push(format!("{} and {}: {why}", name(first), name(second)));
    };
    let controller = &config.controller;
    if controller.base_delay > controller.max_delay {
        both(
            "queueConfig.baseDelay",
            "queueConfig.maxDelay",
            "the base delay must not exceed the maximal delay",
        );
    }
    if find("workers").is_some()
        && controller
            .max_concurrent
            .is_some_and(|max| max < controller.workers)
    {
        both(
            "workers",
            "reconcileConfig.maxConcurrent",
            "the number of workers must not exceed the maximal concurrency",
        );
    }
    if find("enabled").is_some() && find("controllers").is_some() {
        both("enabled", "controllers", "both select controllers; use only one");
    }
    let leader = &config.leader;
    if leader.renew_deadline >= leader.duration {
        let why = "the renew deadline must be shorter than the lease duration";
        both(
            "reconcilermgr.leader-elect-renew-deadline",
            "reconcilermgr.leader-elect-lease-duration",
            why,
        );
    }
    if leader.retry.mul_f64(1.2) >= leader.renew_deadline {
        let why = "the retry period, with its jitter of 1.2, must be shorter than the renew deadline";
        both(
            "reconcilermgr.leader-elect-retry-period",
            "reconcilermgr.leader-elect-renew-deadline",
            why,
        );
    }
    for key in [
        "reconcilermgr.leader-elect-resource-name",
        "reconcilermgr.leader-elect-resource-namespace",
    ] {
        if find(key).is_some() && !leader.elect {
            both(
                key,
                "reconcilermgr.leader-elect",
                "requires leader election to be enabled",
            );
        }
    }
    if config.profiling && config.health_address.is_none() {
        let why = "profiling requires a health address, which serves the profiles";
        both(
            "reconcilermgr.profiling",
            "reconcilermgr.health-probe-bind-address",
            why,
        );
    }
    errors
}
