//! Who may do what.
//!
//! For now: members of `system:masters` may do everything, others may look at what the server says of itself.

use k3_api::{
    rules::User,
    status::{Grouped, Status},
};

use crate::{request::Target, server::Verb};

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

/// Refuses what a user may not do to a resource.
pub(crate) fn resource(user: &User, verb: Verb, target: &Target) -> Result<(), Status> {
    if is_master(user) {
        return Ok(());
    }
    let kind = &target.kind;
    let mut name = kind.plural.to_string();
    if let Some(subresource) = target.subresource() {
        name = format!("{name}/{}", subresource.name);
    }
    let mut why = format!(
        "User {} cannot {} resource {} in API group {}",
        k3_api::go::quote(&user.name),
        verb.word(),
        k3_api::go::quote(&name),
        k3_api::go::quote(&kind.group)
    );
    if target.namespace.is_empty() {
        why.push_str(" at the cluster scope");
    } else {
        why = format!("{why} in the namespace {}", k3_api::go::quote(&target.namespace));
    }
    Err(Status::forbidden(
        Grouped::new(&kind.group, &kind.plural),
        &target.name,
        why,
    ))
}

/// Refuses what a user may not do at a path that is no resource.
pub(crate) fn path(user: &User, method: &str, path: &str) -> Result<(), Status> {
    let known = user.groups.iter().any(|group| group == "system:authenticated");
    let open: &[&str] = if known { &OPEN } else { &PUBLIC };
    let is_open = open
        .iter()
        .any(|open| path == *open || path.starts_with(&format!("{open}/")));
    if is_master(user) || (is_open && method == "get") {
        return Ok(());
    }
    let why = format!(
        "User {} cannot {method} path {}",
        k3_api::go::quote(&user.name),
        k3_api::go::quote(path)
    );
    let mut status = Status::forbidden(Grouped::new("", ""), "", &why);
    status.message = format!("forbidden: {why}");
    status.details = Some(Box::default());
    Err(status)
}

fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}
