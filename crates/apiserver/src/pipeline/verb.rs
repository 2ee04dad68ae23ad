//! Maps HTTP method and path to a verb.

use k3_api::status::{GroupResource, Status, StatusReason};

use super::request_head::RequestHead;
use crate::request::Target;

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

// --- Verb ---

impl Verb {
    /// The verb of a request, from its method and path.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go registerResourceHandlers
    pub(super) fn of(head: &RequestHead, target: &Target) -> Result<Self, Status> {
        let is_one = !target.name.is_empty();
        let verb = match (head.method.as_str(), is_one) {
            ("GET" | "HEAD", _) if target.watch || (head.asks_for_watch() && !is_one) => Verb::Watch,
            ("GET" | "HEAD", true) => Verb::Get,
            ("GET" | "HEAD", false) => Verb::List,
            ("POST", _) => Verb::Create,
            ("PUT", true) => Verb::Update,
            ("PATCH", true) => Verb::Patch,
            ("DELETE", true) => Verb::Delete,
            ("DELETE", false) => Verb::DeleteCollection,
            ("PUT" | "PATCH", false) if target.kind.strategy.is_some() => {
                return Err(Status::bad_request("name must be provided"));
            }
            _ => return Err(not_allowed()),
        };
        verb.check(target)?;
        Ok(verb)
    }

    fn check(self, target: &Target) -> Result<(), Status> {
        let kind = &target.kind;
        let is_one = !target.name.is_empty();
        if let Some(subresource) = target.subresource() {
            return if subresource.verbs.contains(&self.word()) {
                Ok(())
            } else if kind.strategy.is_some() {
                let resource = GroupResource::new(&kind.group, &kind.plural);
                Err(Status::method_not_supported(resource, self.word()))
            } else {
                Err(not_allowed())
            };
        }
        // A path that leads to one object of a kind that has none by name.
        let has_objects = ["get", "update", "patch", "delete"]
            .iter()
            .any(|verb| kind.allows(verb));
        if is_one && !has_objects {
            return Err(not_found());
        }
        let everywhere = kind.is_namespaced() && target.namespace.is_empty();
        let is_custom = kind.strategy.is_some();
        // The name in the path of a new custom object is ignored.
        let allowed = kind.allows(self.word())
            && (self != Verb::Create || !is_one || is_custom)
            && (!everywhere || matches!(self, Verb::List | Verb::Watch) || self.is_question(target));
        if allowed { Ok(()) } else { Err(not_allowed()) }
    }

    /// Questions about a namespaced kind are asked at its own path.
    fn is_question(self, target: &Target) -> bool {
        self == Verb::Create && !target.kind.is_namespaced()
    }

    /// Whether it changes something, or may.
    pub(super) fn is_write(self) -> bool {
        !matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }

    /// The word discovery, roles and audit have for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }
}

/// 405 Method Not Allowed.
pub(super) fn not_allowed() -> Status {
    bare(
        StatusReason::MethodNotAllowed,
        405,
        "the server does not allow this method on the requested resource",
    )
}

/// 404 for a path within the API that is not a resource.
pub(super) fn not_found() -> Status {
    bare(
        StatusReason::NotFound,
        404,
        "the server could not find the requested resource",
    )
}

fn bare(reason: StatusReason, code: u16, message: &str) -> Status {
    let mut status = Status::unknown(message);
    status.reason = reason;
    status.code = code;
    status.details = Some(Box::default());
    status
}
