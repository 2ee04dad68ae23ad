//! Authorization: system:masters, the node authorizer, RBAC, and impersonation.
//!
//! ```text
//! attributes      the attributes of an authorization request, and the decision
//! rbac            the RBAC authorizer, with an index of roles and bindings
//! node            the node authorizer
//! coverage        rules not covered by other rules
//! escalation      RBAC escalation checks
//! impersonation   impersonation and its permissions
//! signer          permission to approve, sign and attest for a signer
//! cache_follower  follows changes of a watch cache
//! ```
//!
//! [`Authorizer::decide`] returns whether a user may do something; it reads the caches and never waits. It is used for every
//! request, and by reviews, admission plugins and policies. Members of `system:masters` may do everything; then the node
//! authorizer decides, then RBAC; everyone may read the health endpoints.

mod attributes;
mod cache_follower;
mod coverage;
mod escalation;
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
    attributes::{AuthorizationAttributes, AuthorizationTarget, Decision, ResourceAttributes},
    escalation::RbacGrant,
    impersonation::RequestIdentity,
    node::name_of as node_name,
};
use self::{impersonation::ImpersonationModeCache, node::NodeAuthorizer, rbac::RbacAuthorizer};
use crate::cache::WatchCaches;

const MASTERS: &str = "system:masters";

/// Paths that everybody may read.
const ALWAYS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Authorizes requests.
pub(crate) struct Authorizer {
    rbac: RbacAuthorizer,
    nodes: NodeAuthorizer,
    modes: ImpersonationModeCache,
}

/// The rules a user has, as a review of rules shows them.
pub(crate) struct RuleList {
    /// Those for resources.
    pub resources: Vec<Value>,
    /// Those for paths.
    pub paths: Vec<Value>,
    /// Whether the list is incomplete.
    pub incomplete: bool,
    /// What kept rules from being found.
    pub error: Option<String>,
}

// --- Authorizer ---

impl Authorizer {
    /// An authorizer over a cluster.
    pub(crate) fn new(caches: Arc<WatchCaches>) -> Self {
        Authorizer {
            rbac: RbacAuthorizer::new(Arc::clone(&caches)),
            nodes: NodeAuthorizer::new(caches),
            modes: ImpersonationModeCache::default(),
        }
    }

    /// Authorizes a request: system:masters, then the node authorizer, then RBAC.
    // upstream: staging/src/k8s.io/apiserver/pkg/authorization/union/union.go Authorize
    pub(crate) fn decide(&self, action: &AuthorizationAttributes<'_>) -> Decision {
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
            AuthorizationTarget::Path(path) if ALWAYS.contains(path) => Decision::Allow(String::new()),
            _ => Decision::NoOpinion(reasons.join("\n")),
        }
    }

    /// Whether a user may do something, when only that counts.
    pub(crate) fn allows(&self, action: &AuthorizationAttributes<'_>) -> bool {
        matches!(self.decide(action), Decision::Allow(_))
    }

    /// Rejects what a user may not do; returns the reason why it is allowed.
    pub(crate) fn require(&self, action: &AuthorizationAttributes<'_>) -> Result<String, Status> {
        match self.decide(action) {
            Decision::Allow(reason) => Ok(reason),
            Decision::NoOpinion(reason) => Err(action.forbidden(&reason)),
        }
    }

    /// The rules of a user in a namespace.
    // upstream: staging/src/k8s.io/apiserver/pkg/authorization/union/union.go RulesFor
    pub(crate) fn rules(&self, user: &User, namespace: &str) -> RuleList {
        let (rules, missing) = self.rbac.rules(user, namespace);
        let incomplete = node::name_of(user).is_some();
        let mut errors = Vec::new();
        if incomplete {
            errors.push("node authorizer does not support user rule resolution".to_owned());
        }
        errors.extend(missing.iter().map(ToString::to_string));
        RuleList {
            resources: rules.iter().filter_map(rbac::PolicyRule::of_resources).collect(),
            paths: rules.iter().filter_map(rbac::PolicyRule::of_paths).collect(),
            incomplete,
            error: rbac::aggregate(errors),
        }
    }
}

fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}
