//! The behaviour of simulated nodes and pods, from a file.
//!
//! ```yaml
//! seed: 7                      # of all jitter
//! nodes:                       # the first rule that matches a node is its rule
//! - match: {first: 0, last: 99}
//!   zones: [zone-a, zone-b]    # one node here, the next one there
//!   region: north
//!   labels: {disk: ssd}
//!   capacity: {cpu: "64", memory: 512Gi, pods: "250"}
//!   vanish: {after: 10m, jitter: 1m, for: 5m}
//! pods:                        # the first rule that matches a pod is its rule
//! - match: {namespace: batch, labels: "app=worker,tier!=db", annotations: crash=true, owner: ReplicaSet}
//!   run: {after: 1s, jitter: 2s}              # from when its node knows it to when its containers run
//!   ready: {after: 5s}                        # from when they run to when they are ready; or `never`
//!   exit: {after: 20s, jitter: 5s, code: 3, times: 10} # from when they run to when they end, each time
//!   stop: 2s                                  # how long it takes to go, at most the grace it has
//! ```
//!
//! Everything may be left out. A pod runs at once, is ready at once, does not end, and terminates at once. What becomes of a pod
//! whose containers have ended is its restart policy's to say: it succeeds, it fails, or its containers are started again,
//! later each time. Pods of jobs that no rule matches end well after a second.

mod duration;
mod file;
mod jitter;
#[cfg(test)]
mod tests;

use std::{fs, path::Path, time::Duration};

use kubecontroller::object::Object;

pub(crate) use self::{
    file::{Delay, ExitRule, NodeRule, PodRule, Ready},
    jitter::hash,
};

/// What simulated nodes and pods do.
#[derive(Clone, Debug)]
pub struct Rules {
    seed: u64,
    nodes: Vec<NodeRule>,
    /// The last one matches everything.
    pods: Vec<PodRule>,
}

/// What is wrong with a file of rules, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRules(String);

/// How long a pod of a Job runs by default.
const JOB: Duration = Duration::from_secs(1);

// --- Rules ---

impl Default for Rules {
    fn default() -> Self {
        Rules::new(file::File::default())
    }
}

impl Rules {
    /// Reads rules.
    pub fn parse(text: &str) -> Result<Self, BadRules> {
        file::read(text).map(Rules::new).map_err(BadRules)
    }

    /// Reads the rules in a file.
    pub fn load(path: &Path) -> Result<Self, BadRules> {
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| BadRules(format!("{name}: {error}")))?;
        Rules::parse(&text).map_err(|BadRules(why)| BadRules(format!("{name}: {why}")))
    }

    fn new(file: file::File) -> Self {
        let jobs = PodRule {
            matches: file::PodMatch {
                owner: Some("Job".to_owned()),
                ..file::PodMatch::default()
            },
            exit: Some(ExitRule {
                after: JOB,
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

    /// Which rule is that of a pod.
    pub(crate) fn choose(&self, pod: &impl Object) -> u16 {
        let chosen = self.pods.iter().position(|rule| rule.matches.holds(pod));
        u16::try_from(chosen.unwrap_or(self.pods.len() - 1)).unwrap_or(u16::MAX)
    }

    /// A rule that was chosen.
    pub(crate) fn pod(&self, chosen: u16) -> &PodRule {
        let chosen = usize::from(chosen).min(self.pods.len() - 1);
        &self.pods[chosen]
    }

    /// How long a delay is, for whom, and in which turn.
    pub(crate) fn length(&self, delay: Delay, whose: &str, what: &str, turn: u32) -> Duration {
        let seed = self.seed ^ hash(0, what);
        delay.after + jitter::part(delay.jitter, seed, whose, turn)
    }
}

// --- matches ---

impl file::PodMatch {
    fn holds(&self, pod: &impl Object) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|name| name == pod.namespace())
            && self.labels.matches(|name| pod.label(name))
            && self.annotations.matches(|name| pod.annotation(name))
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
    /// Where a node is.
    pub(crate) fn zone(&self, number: u32) -> Option<&str> {
        let at = usize::try_from(number).ok()?.checked_rem(self.zones.len())?;
        self.zones.get(at).map(String::as_str)
    }
}
