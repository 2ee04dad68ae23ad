//! Who may do what.
//!
//! ```text
//! action         what somebody wants to do, and what is said to it
//! rbac           roles and bindings decide, from an index
//! node           nodes may do what the pods on them need
//! coverage       what some rules allow and others do not
//! escalation     nobody gives away what they do not have
//! impersonation  acting as somebody else
//! signer         who may approve, sign and attest for a signer
//! following      how an index follows the caches
//! ```
//!
//! [`Authorizer::decide`] says whether a user may do something; it reads the caches and never waits. The server asks it about
//! every request, and so do reviews, admission plugins and policies that need to know. Members of `system:masters` may do
//! everything; then nodes are asked about, then roles; and whether the server is alive, everybody may know.

mod action;
mod coverage;
mod escalation;
mod following;
mod impersonation;
mod node;
mod rbac;
mod signer;
#[cfg(test)]
pub(crate) mod testing;

use std::sync::Arc;

use k3_api::{status::Status, strategy::User};
use serde_json::Value;

pub(crate) use self::{
    action::{Action, Decision, Object, What},
    escalation::Grant,
    impersonation::Identity,
    node::name_of as node_name,
};
use self::{impersonation::Modes, node::Nodes, rbac::Rbac};
use crate::cache::Caches;

const MASTERS: &str = "system:masters";

/// Paths that everybody may read.
const ALWAYS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// What decides.
pub(crate) struct Authorizer {
    rbac: Rbac,
    nodes: Nodes,
    modes: Modes,
}

/// The rules a user has, as a review of rules shows them.
pub(crate) struct RuleList {
    /// Those for resources.
    pub resources: Vec<Value>,
    /// Those for paths.
    pub paths: Vec<Value>,
    /// Whether there are more that cannot be told.
    pub incomplete: bool,
    /// What kept rules from being found.
    pub error: Option<String>,
}

// --- Authorizer ---

impl Authorizer {
    /// An authorizer over a cluster.
    pub(crate) fn new(caches: Arc<Caches>) -> Self {
        Authorizer {
            rbac: Rbac::new(Arc::clone(&caches)),
            nodes: Nodes::new(caches),
            modes: Modes::default(),
        }
    }

    /// Whether a user may do something.
    pub(crate) fn decide(&self, action: &Action<'_>) -> Decision {
        if is_master(action.user) {
            return Decision::Allow(String::new());
        }
        let mut reasons = Vec::new();
        if let Some(decision) = self.nodes.decide(action) {
            match decision {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(format!("node: {reason}")),
                allowed @ Decision::Allow(_) => return allowed,
            }
        }
        match self.rbac.decide(action) {
            Decision::NoOpinion(reason) if reason.is_empty() => {}
            Decision::NoOpinion(reason) => reasons.push(format!("rbac: {reason}")),
            allowed @ Decision::Allow(_) => return allowed,
        }
        match &action.what {
            What::Path(path) if ALWAYS.contains(path) => Decision::Allow(String::new()),
            _ => Decision::NoOpinion(reasons.join("\n")),
        }
    }

    /// Whether a user may do something, when only that counts.
    pub(crate) fn allows(&self, action: &Action<'_>) -> bool {
        matches!(self.decide(action), Decision::Allow(_))
    }

    /// Refuses what a user may not do; tells why they may do the rest.
    pub(crate) fn require(&self, action: &Action<'_>) -> Result<String, Status> {
        match self.decide(action) {
            Decision::Allow(reason) => Ok(reason),
            Decision::NoOpinion(reason) => Err(action.refused(&reason)),
        }
    }

    /// The rules a user has in a namespace.
    pub(crate) fn rules(&self, user: &User, namespace: &str) -> RuleList {
        let (rules, missing) = self.rbac.rules(user, namespace);
        let incomplete = node::name_of(user).is_some();
        let mut errors = Vec::new();
        if incomplete {
            errors.push("node authorizer does not support user rule resolution".to_owned());
        }
        errors.extend(missing.iter().map(ToString::to_string));
        RuleList {
            resources: rules.iter().filter_map(rbac::Rule::of_resources).collect(),
            paths: rules.iter().filter_map(rbac::Rule::of_paths).collect(),
            incomplete,
            error: rbac::aggregate(errors),
        }
    }
}

fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}
