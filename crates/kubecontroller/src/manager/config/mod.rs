//! The configuration of a program: flags, environment variables, and a YAML file.
//!
//! Guarantees:
//! - Every setting is one entry of one table ([`keys`]): its key in the file, its flag, its help, its validation. A key that is
//!   not in the table is an error.
//! - A flag overrides the environment, which overrides the file, which overrides the default.
//! - All errors are reported at once, with file, line and key, before the first connection.

mod file;
mod flags;
pub mod keys;
#[cfg(test)]
mod tests;
mod values;

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use self::keys::{KEYS, Setting};
pub use self::{
    file::{ConfigEntry, ConfigFileError, parse_entries},
    values::{ParseDurationError, parse_duration},
};
pub(super) use self::{
    flags::{CommandLine, CommandLineError, read},
    values::level,
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

/// All errors in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The messages.
    pub errors: Vec<String>,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueSource {
    File { path: String, line: u64 },
    Env(&'static str),
    Flag(String),
}

/// The value of a key before validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigValue {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) source: ValueSource,
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
        let read = text.map(values::parse_duration).transpose();
        read.map_err(|why| ConfigError {
            errors: vec![format!("{key}: {why}")],
        })
    }

    /// The value of one of the program's own settings as `true` or `false`; false if it is empty.
    pub fn controller_switch(&self, key: &str) -> Result<bool, ConfigError> {
        match self.controller_setting(key) {
            "" => Ok(false),
            text => values::switch(text).map_err(|why| ConfigError {
                errors: vec![format!("{key}: {why}")],
            }),
        }
    }

    /// Parses a configuration file. `name` identifies the file in errors.
    pub fn from_yaml(name: &str, text: &str) -> Result<Self, ConfigError> {
        let given = file::read(name, text)?;
        Config::from_values(&given, &[])
    }

    /// Builds a configuration from values in ascending precedence, including the program's own settings.
    pub(super) fn from_values(given: &[ConfigValue], own: &[ControllerSetting]) -> Result<Self, ConfigError> {
        let mut config = Config::default();
        let mut errors = Vec::new();
        for setting in own {
            config
                .own
                .insert(setting.key.to_owned(), setting.default.to_owned());
        }
        let mut values: BTreeMap<&'static str, &ConfigValue> = BTreeMap::new();
        for given in given {
            if let Some(own) = own.iter().find(|own| own.key == given.key) {
                config.own.insert(own.key.to_owned(), given.value.clone());
                continue;
            }
            match Setting::find(&given.key) {
                None => errors.push(format!("{given}: {}", unknown(&given.key, own))),
                Some((setting, rest)) => {
                    if let Some(alias) = setting.alias().and_then(|alias| values.get(alias)) {
                        // Two keys of one setting: a source of higher precedence wins, but one source must not contradict itself.
                        if alias.source.precedence() == given.source.precedence()
                            && alias.value != given.value
                        {
                            errors.push(format!(
                                "{given}: contradicts {alias}, which is the same setting with the value {:?}",
                                alias.value
                            ));
                        }
                    }
                    values.insert(setting.key, given);
                    if let Err(why) = (setting.set)(&mut config, rest, &given.value) {
                        errors.push(format!("{given}: {why}"));
                    }
                }
            }
        }
        errors.extend(contradictions(&config, &values));
        if errors.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError { errors })
        }
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
fn contradictions(config: &Config, values: &BTreeMap<&'static str, &ConfigValue>) -> Vec<String> {
    let mut errors = Vec::new();
    let mut both = |first: &'static str, second: &'static str, why: &str| {
        let name = |key: &'static str| {
            values
                .get(key)
                .map_or_else(|| format!("{key} (default)"), ToString::to_string)
        };
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
    for key in ["workers", "reconcilermgr.concurrence"] {
        if values.contains_key(key)
            && controller
                .max_concurrent
                .is_some_and(|max| max < controller.workers)
        {
            both(
                key,
                "reconcileConfig.maxConcurrent",
                "the number of workers must not exceed the maximal concurrency",
            );
        }
    }
    if values.contains_key("enabled") && values.contains_key("controllers") {
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
        if values.contains_key(key) && !leader.elect {
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

/// The error for an unknown key, with a suggestion.
fn unknown(key: &str, own: &[ControllerSetting]) -> String {
    if key.starts_with("apiextmgr.") {
        return "this program has no API extension server".to_owned();
    }
    let known = KEYS
        .iter()
        .map(|setting| setting.key)
        .chain(own.iter().map(|own| own.key));
    match closest_match(key, known) {
        Some(known) => format!("unknown key; did you mean {known}?"),
        None => "unknown key".to_owned(),
    }
}

/// The known word closest to a misspelt one, by edit distance; none if all differ by more than three edits.
pub fn closest_match<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = known.map(|known| (distance(word, known), known)).min();
    nearest
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, known)| known)
}

/// The Levenshtein distance, ignoring case.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, from) in from.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in to.iter().enumerate() {
            let kept = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = kept.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

// --- ConfigValue ---

impl fmt::Display for ConfigValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            ValueSource::File { path, line } => write!(f, "{path}:{line}: {}", self.key),
            ValueSource::Env(name) => write!(f, "{name} (environment)"),
            ValueSource::Flag(flag) => f.write_str(flag),
        }
    }
}

impl ValueSource {
    fn precedence(&self) -> u8 {
        match self {
            ValueSource::File { .. } => 0,
            ValueSource::Env(_) => 1,
            ValueSource::Flag(_) => 2,
        }
    }
}

// --- ConfigError ---

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.errors.join("\n"))
    }
}

impl std::error::Error for ConfigError {}
