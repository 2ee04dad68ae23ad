//! What a program is told: by flags, by the environment, by a file.
//!
//! Promises:
//! - Every setting is one line of one table ([`keys`]): its name in the file, its flag, its meaning, its rule. What the table
//!   does not have is an error, not a warning.
//! - A flag goes before the environment, the environment before the file, the file before the default.
//! - All that is wrong is told at once, with file, line and key, before anything connects to anything.

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

/// What a program is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How the cluster is reached.
    pub cluster: ClusterConfig,
    /// Where figures are served; nowhere by default.
    pub metrics_address: Option<String>,
    /// Where health is served; nowhere by default.
    pub health_address: Option<String>,
    /// Whether profiles may be taken. Default: no.
    pub profiling: bool,
    /// How long a stop may take. Default: 30 s.
    pub grace: Duration,
    /// Which controllers run. Default: all.
    pub selection: ControllerSelection,
    /// Whether controllers of resources that need a whole cluster are left out. Default: no.
    pub portable: bool,
    /// Which objects of a resource are looked at, by resource. Default: all.
    pub filters: BTreeMap<String, String>,
    /// What a controller waits for, by name or resource.
    pub dependencies: BTreeMap<String, Vec<StartCondition>>,
    /// How controllers work.
    pub controller: ControllerConfig,
    /// How informers work.
    pub informer: InformerConfig,
    /// Whether and how a leader is elected.
    pub leader: LeaderConfig,
    /// What is logged, and how.
    pub log: LogConfig,
    /// The settings of the program itself, by key; see [`App::setting`](super::App::setting).
    pub own: BTreeMap<String, String>,
}

/// How the cluster is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterConfig {
    /// A file of credentials. Default: what the environment says; the service account within a cluster.
    pub kubeconfig: Option<PathBuf>,
    /// The address of the API server, instead of the one in the file.
    pub master: Option<String>,
    /// Which context of the file. Default: its current one.
    pub context: Option<String>,
}

/// How controllers work, as far as they do not say otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerConfig {
    /// How many objects one controller works on at once. Default: 4, or as many as the machine has cores if that is less.
    pub workers: usize,
    /// How long one reconcile may take. Default: as long as it likes.
    pub timeout: Option<Duration>,
    /// After how many retries a key is dropped. Default: never, which is what level-driven controllers want.
    pub max_retries: Option<u32>,
    /// How long a key waits after its first failure. Default: 5 ms.
    pub base_delay: Duration,
    /// How long a key waits at most. Default: 1000 s.
    pub max_delay: Duration,
    /// How many reconciles of one controller run at once at most, whatever it asks for. Default: no limit.
    pub max_concurrent: Option<usize>,
    /// How many keys per second, if limited. Default: retries only, 10 per second after 100 at once.
    pub qps: Option<f64>,
}

/// How informers work, as far as they do not say otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct InformerConfig {
    /// How often all objects are looked at again. Default: never.
    pub resync: Option<Duration>,
    /// How many objects one informer keeps at most. Default: no limit.
    pub cache_size: Option<usize>,
    /// How long a list may take. Default: the informer's own.
    pub list_timeout: Option<Duration>,
    /// Whether the first objects come one by one, as events of the watch, where the server can do that. Default: no, as a
    /// list.
    pub incremental_sync: bool,
    /// How long the first lists may take in all before the program gives up. Default: 2 minutes.
    pub sync_timeout: Duration,
}

/// Whether and how a leader is elected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderConfig {
    /// Whether. Default: no; then this process leads.
    pub elect: bool,
    /// The name of the lease. Default: that of the program.
    pub name: Option<String>,
    /// Its namespace. Default: that of the client.
    pub namespace: Option<String>,
    /// See [`lease::Options`](crate::leader_election::LeaderElectionConfig). Default: 15 s.
    pub duration: Duration,
    /// Default: 10 s.
    pub renew_deadline: Duration,
    /// Default: 2 s.
    pub retry: Duration,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The least important messages that are shown. Default: info.
    pub level: tracing::Level,
    /// Lines for humans or JSON. Default: for humans.
    pub format: LogFormat,
    /// A name that every line carries.
    pub name: Option<String>,
    /// Whether lines say which line of code wrote them. Default: no.
    pub caller: bool,
    /// Whether a panic is logged with its stack. Default: yes.
    pub stacktrace: bool,
    /// Where lines go: `stdout`, `stderr` or a file. Default: `stderr`.
    pub output: String,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For humans.
    Console,
    /// One JSON object a line.
    Json,
}

/// All that is wrong with what a program was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// One line each.
    pub errors: Vec<String>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    File { path: String, line: u64 },
    Env(&'static str),
    Flag(String),
}

/// A value that was given for a key, before anybody looked at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigValue {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) origin: Origin,
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
    /// A setting of the program itself; empty if the program never named it.
    pub fn controller_setting(&self, key: &str) -> &str {
        self.own.get(key).map_or("", String::as_str)
    }

    /// A setting of the program itself that is a time, such as `30s`; nothing if it is empty.
    pub fn controller_duration(&self, key: &str) -> Result<Option<Duration>, ConfigError> {
        let text = Some(self.controller_setting(key)).filter(|text| !text.is_empty());
        let read = text.map(values::parse_duration).transpose();
        read.map_err(|why| ConfigError {
            errors: vec![format!("{key}: {why}")],
        })
    }

    /// A setting of the program itself that is `true` or `false`, which it is if it is empty.
    pub fn controller_switch(&self, key: &str) -> Result<bool, ConfigError> {
        match self.controller_setting(key) {
            "" => Ok(false),
            text => values::switch(text).map_err(|why| ConfigError {
                errors: vec![format!("{key}: {why}")],
            }),
        }
    }

    /// Reads a configuration from the text of a file; `name` is how errors call it.
    pub fn from_yaml(name: &str, text: &str) -> Result<Self, ConfigError> {
        let given = file::read(name, text)?;
        Config::from_given(&given, &[])
    }

    /// What was given, the least important first, with the program's own settings beside those of the table.
    pub(super) fn from_given(given: &[ConfigValue], own: &[ControllerSetting]) -> Result<Self, ConfigError> {
        let mut config = Config::default();
        let mut errors = Vec::new();
        for setting in own {
            config
                .own
                .insert(setting.key.to_owned(), setting.default.to_owned());
        }
        let mut told: BTreeMap<&'static str, &ConfigValue> = BTreeMap::new();
        for given in given {
            if let Some(own) = own.iter().find(|own| own.key == given.key) {
                config.own.insert(own.key.to_owned(), given.value.clone());
                continue;
            }
            match Setting::find(&given.key) {
                None => errors.push(format!("{given}: {}", unknown(&given.key, own))),
                Some((setting, rest)) => {
                    if let Some(twin) = setting.twin().and_then(|twin| told.get(twin)) {
                        // Two names of one setting: the more important place wins, but one place has to say one thing.
                        if twin.origin.place() == given.origin.place() && twin.value != given.value {
                            errors.push(format!(
                                "{given}: {twin} is the same setting, and says {:?}",
                                twin.value
                            ));
                        }
                    }
                    told.insert(setting.key, given);
                    if let Err(why) = (setting.set)(&mut config, rest, &given.value) {
                        errors.push(format!("{given}: {why}"));
                    }
                }
            }
        }
        errors.extend(contradictions(&config, &told));
        if errors.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError { errors })
        }
    }
}

/// A setting of the program itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerSetting {
    /// Its key in the file, with dots; and, behind `--`, its flag.
    pub key: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// Its value if nobody says otherwise.
    pub default: &'static str,
}

/// Values that are fine one by one and make no sense together.
fn contradictions(config: &Config, told: &BTreeMap<&'static str, &ConfigValue>) -> Vec<String> {
    let mut errors = Vec::new();
    let mut both = |first: &'static str, second: &'static str, why: &str| {
        let name = |key: &'static str| {
            told.get(key)
                .map_or_else(|| format!("{key} (default)"), ToString::to_string)
        };
        errors.push(format!("{} and {}: {why}", name(first), name(second)));
    };
    let controller = &config.controller;
    if controller.base_delay > controller.max_delay {
        both(
            "queueConfig.baseDelay",
            "queueConfig.maxDelay",
            "the first delay is longer than the longest",
        );
    }
    for key in ["workers", "reconcilermgr.concurrence"] {
        if told.contains_key(key)
            && controller
                .max_concurrent
                .is_some_and(|max| max < controller.workers)
        {
            both(
                key,
                "reconcileConfig.maxConcurrent",
                "there are more workers than may run at once",
            );
        }
    }
    if told.contains_key("enabled") && told.contains_key("controllers") {
        both(
            "enabled",
            "controllers",
            "both say which controllers run; use one",
        );
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
        if told.contains_key(key) && !leader.elect {
            both(
                key,
                "reconcilermgr.leader-elect",
                "there is no lease without leader election",
            );
        }
    }
    if config.profiling && config.health_address.is_none() {
        let why = "profiles are served with health, which is not served";
        both(
            "reconcilermgr.profiling",
            "reconcilermgr.health-probe-bind-address",
            why,
        );
    }
    errors
}

/// Why a key is not known, with the one that may have been meant.
fn unknown(key: &str, own: &[ControllerSetting]) -> String {
    if key.starts_with("apiextmgr.") {
        return "this program has no API extension server".to_owned();
    }
    let known = KEYS
        .iter()
        .map(|setting| setting.key)
        .chain(own.iter().map(|own| own.key));
    match closest_match(key, known) {
        Some(known) => format!("no such key; is it {known}?"),
        None => "no such key".to_owned(),
    }
}

/// The name that may have been meant: the one with the fewest other letters, if they are few.
pub fn closest_match<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = known.map(|known| (distance(word, known), known)).min();
    nearest
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, known)| known)
}

/// How many letters have to be changed to make the one of the other.
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
        match &self.origin {
            Origin::File { path, line } => write!(f, "{path}:{line}: {}", self.key),
            Origin::Env(name) => write!(f, "{name} (environment)"),
            Origin::Flag(flag) => f.write_str(flag),
        }
    }
}

impl Origin {
    fn place(&self) -> u8 {
        match self {
            Origin::File { .. } => 0,
            Origin::Env(_) => 1,
            Origin::Flag(_) => 2,
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
