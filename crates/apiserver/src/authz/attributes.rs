//! Attributes of an authorization request, and the decision.

use std::borrow::Cow;

use k3_api::{
    go::quote,
    selector::field::Term,
    status::{GroupResource, Status},
    strategy::User,
};

/// The attributes of an authorization request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuthorizationAttributes<'a> {
    /// Who.
    pub user: &'a User,
    /// The verb, as roles have it: `get`, `list`, `deletecollection`, `bind`, ...
    pub verb: &'a str,
    /// To what.
    pub what: AuthorizationTarget<'a>,
}

/// The target of a request: a resource or a non-resource path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AuthorizationTarget<'a> {
    /// A resource.
    Resource(ResourceAttributes<'a>),
    /// A path that is no resource.
    Path(&'a str),
}

/// A resource, or one of its objects. What is empty means all, or none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResourceAttributes<'a> {
    /// The API group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The resource, such as `pods`.
    pub resource: &'a str,
    /// The part of it, such as `status`.
    pub subresource: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The name of the object.
    pub name: &'a str,
    /// What the fields of the objects are to be like.
    pub fields: &'a [Term],
}

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It may be done, and why.
    Allow(String),
    /// Not allowed; there may be a reason.
    NoOpinion(String),
}

// --- AuthorizationAttributes ---

impl AuthorizationAttributes<'_> {
    /// 403 Forbidden.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go Forbidden, forbiddenMessage
    pub(crate) fn forbidden(&self, reason: &str) -> Status {
        let why = self.denial_message(reason);
        match &self.what {
            AuthorizationTarget::Resource(object) => Status::forbidden(
                GroupResource::new(object.group, object.resource),
                object.name,
                why,
            ),
            AuthorizationTarget::Path(_) => {
                let mut status = Status::forbidden(GroupResource::new("", ""), "", &why);
                status.message = format!("forbidden: {why}");
                status.details = Some(Box::default());
                status
            }
        }
    }

    /// The words that refuse it.
    fn denial_message(&self, reason: &str) -> String {
        let mut text = format!("User {} cannot {} ", quote(&self.user.name), self.verb);
        match &self.what {
            AuthorizationTarget::Path(path) => text = format!("{text}path {}", quote(path)),
            AuthorizationTarget::Resource(object) => {
                let mut resource = object.resource.to_owned();
                if !object.subresource.is_empty() {
                    resource = format!("{resource}/{}", object.subresource);
                }
                text = format!(
                    "{text}resource {} in API group {}",
                    quote(&resource),
                    quote(object.group)
                );
                if object.namespace.is_empty() {
                    text.push_str(" at the cluster scope");
                } else {
                    text = format!("{text} in the namespace {}", quote(object.namespace));
                }
            }
        }
        let mut text = without_markup(&text).into_owned();
        if !reason.is_empty() {
            text = format!("{text}: {reason}");
        }
        text
    }
}

/// What the client said, in a form that no browser takes for markup.
fn without_markup(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>']) {
        return Cow::Borrowed(text);
    }
    let text = text.replace('&', "&amp;");
    Cow::Owned(text.replace('<', "&lt;").replace('>', "&gt;"))
}
