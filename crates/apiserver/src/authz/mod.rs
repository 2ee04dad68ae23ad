//! Who may do what.
//!
//! [`Authorizer::decide`] says whether a user may do something; it reads the caches and never waits. The server asks it about
//! every request, and so do reviews, admission plugins and policies that need to know.
//!
//! For now: members of `system:masters` may do everything, others may look at what the server says of itself.

mod action;

use std::sync::Arc;

use k3_api::{
    rules::User,
    status::{Grouped, Status},
};

pub(crate) use self::action::{Action, Decision, Object, What};
use crate::{cache::Caches, request::Target, server::Verb};

const MASTERS: &str = "system:masters";

/// Paths that everybody may read who is known.
const OPEN: [&str; 9] = [
    "/api",
    "/apis",
    "/healthz",
    "/livez",
    "/openapi",
    "/openid",
    "/readyz",
    "/version",
    "/.well-known",
];
/// Paths that everybody may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// What decides.
pub(crate) struct Authorizer {
    _caches: Arc<Caches>,
}

// --- Authorizer ---

impl Authorizer {
    /// An authorizer over a cluster.
    pub(crate) fn new(caches: Arc<Caches>) -> Self {
        Authorizer { _caches: caches }
    }

    /// Whether a user may do something.
    #[expect(clippy::unused_self, reason = "roles are read from the caches")]
    pub(crate) fn decide(&self, action: &Action<'_>) -> Decision {
        if action.user.groups.iter().any(|group| group == MASTERS) {
            return Decision::Allow(String::new());
        }
        let What::Path(path) = &action.what else {
            return Decision::NoOpinion(String::new());
        };
        let known = action
            .user
            .groups
            .iter()
            .any(|group| group == "system:authenticated");
        let open: &[&str] = if known { &OPEN } else { &PUBLIC };
        let is_open = open
            .iter()
            .any(|open| path == open || path.starts_with(&format!("{open}/")));
        if is_open && action.verb == "get" {
            Decision::Allow(String::new())
        } else {
            Decision::NoOpinion(String::new())
        }
    }

    /// Refuses what a user may not do to a resource.
    pub(crate) fn resource(&self, user: &User, verb: Verb, target: &Target) -> Result<(), Status> {
        let object = Object {
            group: &target.kind.group,
            version: &target.kind.version,
            resource: &target.kind.plural,
            subresource: target.part(),
            namespace: &target.namespace,
            name: &target.name,
        };
        let action = Action {
            user,
            verb: verb.word(),
            what: What::Object(object),
        };
        match self.decide(&action) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(Status::forbidden(
                Grouped::new(&target.kind.group, &target.kind.plural),
                &target.name,
                action.refusal(&reason),
            )),
        }
    }

    /// Refuses what a user may not do at a path that is no resource.
    pub(crate) fn path(&self, user: &User, method: &str, path: &str) -> Result<(), Status> {
        let action = Action {
            user,
            verb: method,
            what: What::Path(path),
        };
        let reason = match self.decide(&action) {
            Decision::Allow(_) => return Ok(()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => reason,
        };
        let why = action.refusal(&reason);
        let mut status = Status::forbidden(Grouped::new("", ""), "", &why);
        status.message = format!("forbidden: {why}");
        status.details = Some(Box::default());
        Err(status)
    }
}
