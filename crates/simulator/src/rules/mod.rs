//! The behaviour of simulated nodes and pods, from a file.
//!
//! ```yaml
//! seed: 7                      # seed of all jitter
//! nodes:                       # the first rule that matches a node is its rule
//! - match: {first: 0, last: 99}
//!   zones: [zone-a, zone-b]    # assigned in turn
//!   region: north
//!   labels: {disk: ssd}
//!   capacity: {cpu: "64", memory: 512Gi, pods: "250"}
//!   vanish: {after: 10m, jitter: 1m, for: 5m}
//! pods:                        # the first rule that matches a pod is its rule
//! - match: {namespace: batch, labels: "app=worker,tier!=db", annotations: crash=true, owner: ReplicaSet}
//!   run: {after: 1s, jitter: 2s}              # from binding to running containers
//!   ready: {after: 5s}                        # from running to ready; or `never`
//!   exit: {after: 20s, jitter: 5s, code: 3, times: 10} # from running to exit, each time
//!   stop: 2s                                  # duration of termination, at most the grace period
//! ```
//!
//! Every field is optional. By default a pod runs at once, is ready at once, does not exit, and terminates at once. When the
//! containers exit, the restart policy decides: the pod succeeds, fails, or its containers are restarted with exponential
//! back-off. Pods of Jobs that no rule matches exit with code 0 after a second.

mod duration;
mod file;
mod jitter;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use kubecontroller::object::Object;

pub(crate) use self::{
    file::{Delay, ExitRule, NodeRule, PodRule, ReadyRule},
    jitter::hash,
};

/// The behaviour of simulated nodes and pods.
#[derive(Clone, Debug)]
pub struct Rules {
    seed: u64,
    nodes: Vec<NodeRule>,
    /// The last rule matches every pod.
    pods: Vec<PodRule>,
}

/// Why rules cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseRulesError {
    /// The text is not YAML, or a field is unknown or invalid.
    #[error("{message}")]
    Yaml {
        /// Location and reason, without the lines that quote the document.
        message: String,
        /// The error of the parser.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A rule matches nodes up to a number that is less than the first one.
    #[error("nodes[{at}].match: last must not be less than first ({first})")]
    InvertedRange {
        /// Index of the rule.
        at: usize,
        /// Number of the first node.
        first: u32,
    },
    /// A rule is referred to by a number of 16 bits.
    #[error("pods: {0} rules are too many")]
    TooManyPodRules(usize),
}

/// Why a rules file cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadRulesError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content of the file is invalid.
    #[error("{}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Location and reason.
        source: ParseRulesError,
    },
}

/// How long a pod of a Job runs by default.
const JOB_DURATION: Duration = Duration::from_secs(1);

// --- Rules ---

impl Default for Rules {
    fn default() -> Self {
        Rules::new(file::RulesFile::default())
    }
}

impl Rules {
    /// Parses rules from YAML.
    pub fn parse(text: &str) -> Result<Self, ParseRulesError> {
        file::read(text).map(Rules::new)
    }

    /// Reads a rules file.
    pub fn load(path: &Path) -> Result<Self, LoadRulesError> {
        let text = fs::read_to_string(path).map_err(|source| LoadRulesError::Read {
            path: path.to_owned(),
            source,
        })?;
        Rules::parse(&text).map_err(|source| LoadRulesError::Parse {
            path: path.to_owned(),
            source,
        })
    }

    fn new(file: file::RulesFile) -> Self {
        let jobs = PodRule {
            matches: file::PodMatch {
                owner: Some("Job".to_owned()),
                ..file::PodMatch::default()
            },
            exit: Some(ExitRule {
                after: JOB_DURATION,
                ..ExitRule::default()
            }),
            ..PodRule::default()
        };
        let mut pods = file.pods;
        pods.extend([jobs, PodRule::default()]);
        Rules {
            seed: file.seed,
            nodes: file.nodes,
            pods,
        }
    }

    /// The rule of a node.
    pub(crate) fn node(&self, number: u32) -> Option<&NodeRule> {
        self.nodes.iter().find(|rule| rule.matches.holds(number))
    }

    /// Returns the index of the first rule that matches a pod.
    pub(crate) fn choose(&self, pod: &impl Object) -> u16 {
        let chosen = self.pods.iter().position(|rule| rule.matches.holds(pod));
        u16::try_from(chosen.unwrap_or(self.pods.len() - 1)).unwrap_or(u16::MAX)
    }

    /// Returns the rule with an index from [`Rules::choose`].
    pub(crate) fn pod(&self, chosen: u16) -> &PodRule {
        let chosen = usize::from(chosen).min(self.pods.len() - 1);
        &self.pods[chosen]
    }

    /// Returns a delay with its jitter, which depends on the object, the kind of delay and the attempt.
    pub(crate) fn length(&self, delay: Delay, whose: &str, what: &str, turn: u32) -> Duration {
        let seed = self.seed ^ hash(0, what);
        delay.after + jitter::jitter(delay.jitter, seed, whose, turn)
    }
}

// --- matches ---

impl file::PodMatch {
    fn holds(&self, pod: &impl Object) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|name| name == pod.namespace())
            && self.labels.matches_with(|name| pod.label(name))
            && self.annotations.matches_with(|name| pod.annotation(name))
            && self
                .owner
                .as_deref()
                .is_none_or(|kind| pod.controller().is_some_and(|owner| owner.kind == kind))
    }
}

impl file::NodeMatch {
    fn holds(self, number: u32) -> bool {
        self.first <= number && self.last.is_none_or(|last| number <= last)
    }
}

// --- NodeRule ---

impl NodeRule {
    /// The topology zone of a node.
    pub(crate) fn zone(&self, number: u32) -> Option<&str> {
        let at = usize::try_from(number).ok()?.checked_rem(self.zones.len())?;
        self.zones.get(at).map(String::as_str)
    }
}
