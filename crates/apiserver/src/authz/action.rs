//! What somebody wants to do, and what is said to it.

use std::borrow::Cow;

use k3_api::{
    go::quote,
    selector::field::Term,
    status::{GroupResource, Status},
    strategy::User,
};

/// What somebody wants to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action<'a> {
    /// Who.
    pub user: &'a User,
    /// The verb, as roles have it: `get`, `list`, `deletecollection`, `bind`, ...
    pub verb: &'a str,
    /// To what.
    pub what: What<'a>,
}

/// What something is done to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What<'a> {
    /// A resource.
    Object(Object<'a>),
    /// A path that is no resource.
    Path(&'a str),
}

/// A resource, or one of its objects. What is empty means all, or none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Object<'a> {
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

/// What is said to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It may be done, and why.
    Allow(String),
    /// Nobody said that it may be done; there may be a reason.
    NoOpinion(String),
}

// --- Action ---

impl Action<'_> {
    /// The answer that refuses it.
    pub(crate) fn refused(&self, reason: &str) -> Status {
        let why = self.refusal(reason);
        match &self.what {
            What::Object(object) => Status::forbidden(
                GroupResource::new(object.group, object.resource),
                object.name,
                why,
            ),
            What::Path(_) => {
                let mut status = Status::forbidden(GroupResource::new("", ""), "", &why);
                status.message = format!("forbidden: {why}");
                status.details = Some(Box::default());
                status
            }
        }
    }

    /// The words that refuse it.
    fn refusal(&self, reason: &str) -> String {
        let mut text = format!("User {} cannot {} ", quote(&self.user.name), self.verb);
        match &self.what {
            What::Path(path) => text = format!("{text}path {}", quote(path)),
            What::Object(object) => {
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
