//! What is known by its functions alone.

use std::{net::IpAddr, sync::Arc};

use k3_quantity::Quantity;

use super::Value;
use crate::{
    decl::Opaque,
    error::EvalError,
    function::{format::Format, network, semver::Semver, url::Url},
};

/// Something with functions of its own.
#[derive(Clone, Debug)]
pub enum Thing {
    /// An amount.
    Quantity(Arc<Quantity>),
    /// An IP address.
    Ip(IpAddr),
    /// A range of IP addresses: an address in it, and how many bits all have in common.
    Cidr(IpAddr, u8),
    /// A URL.
    Url(Arc<Url>),
    /// A semantic version.
    Semver(Arc<Semver>),
    /// A named format.
    Format(&'static Format),
    /// Whom to ask.
    Authorizer(Asker),
    /// A question about a path.
    PathCheck(Asker, Arc<str>),
    /// The beginning of a question about resources of a group.
    GroupCheck(Asker, Arc<str>),
    /// A question about a resource.
    ResourceCheck(Asker, Arc<ResourceCheck>),
    /// An answer.
    Decision(Arc<Decision>),
}

/// Whom to ask, and for whom.
#[derive(Clone)]
pub struct Asker {
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// A service account, as namespace and name, if not for who asks.
    pub(crate) service_account: Option<Arc<(String, String)>>,
}

/// Answers what is allowed to whom. Asked while an expression runs: it must not wait.
pub trait Authorizer: Send + Sync {
    /// Answers a question.
    fn authorize(&self, check: &Check<'_>) -> Decision;
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Check<'c> {
    /// For this service account, as namespace and name, or for who makes the request.
    pub service_account: Option<(&'c str, &'c str)>,
    /// What is to be done.
    pub verb: &'c str,
    /// With what.
    pub target: Target<'c>,
}

/// What a question is about.
#[derive(Clone, Copy, Debug)]
pub enum Target<'c> {
    /// A path that is no resource's.
    Path(&'c str),
    /// A resource, of all versions.
    Resource(&'c ResourceCheck),
}

/// A resource that a question is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCheck {
    /// Its API group.
    pub group: String,
    /// Its name in paths.
    pub resource: String,
    /// A part of it.
    pub subresource: String,
    /// A namespace, if one.
    pub namespace: String,
    /// An object, if one.
    pub name: String,
    /// Which objects, by fields, if it matters.
    pub field_selector: String,
    /// Which objects, by labels, if it matters.
    pub label_selector: String,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong with finding out.
    pub error: Option<String>,
}

// --- Value ---

impl Value<'_> {
    /// Whom expressions can ask: `authorizer`.
    pub fn authorizer(authorizer: Arc<dyn Authorizer>) -> Self {
        Value::Opaque(Thing::Authorizer(Asker {
            authorizer,
            service_account: None,
        }))
    }

    /// A question about a resource that lacks its verb: `authorizer.requestResource`.
    pub fn resource_check(authorizer: Arc<dyn Authorizer>, check: ResourceCheck) -> Self {
        Value::Opaque(Thing::ResourceCheck(
            Asker {
                authorizer,
                service_account: None,
            },
            Arc::new(check),
        ))
    }
}

// --- Thing ---

impl Thing {
    pub(crate) fn opaque(&self) -> Opaque {
        match self {
            Thing::Quantity(_) => Opaque::Quantity,
            Thing::Ip(_) => Opaque::Ip,
            Thing::Cidr(..) => Opaque::Cidr,
            Thing::Url(_) => Opaque::Url,
            Thing::Semver(_) => Opaque::Semver,
            Thing::Format(_) => Opaque::Format,
            Thing::Authorizer(_) => Opaque::Authorizer,
            Thing::PathCheck(..) => Opaque::PathCheck,
            Thing::GroupCheck(..) => Opaque::GroupCheck,
            Thing::ResourceCheck(..) => Opaque::ResourceCheck,
            Thing::Decision(_) => Opaque::Decision,
        }
    }

    pub(crate) fn equals(&self, other: &Thing) -> Result<bool, EvalError> {
        Ok(match (self, other) {
            (Thing::Quantity(a), Thing::Quantity(b)) => a == b,
            (Thing::Ip(a), Thing::Ip(b)) => a == b,
            (Thing::Cidr(a, bits), Thing::Cidr(b, others)) => a == b && bits == others,
            (Thing::Url(a), Thing::Url(b)) => a == b,
            (Thing::Semver(a), Thing::Semver(b)) => a == b,
            (Thing::Format(a), Thing::Format(b)) => a.name == b.name,
            _ => return Err(EvalError::no_such_overload()),
        })
    }

    /// The text it is written as, if it is.
    pub(crate) fn text(&self) -> Option<String> {
        Some(match self {
            Thing::Quantity(quantity) => quantity.to_string(),
            Thing::Ip(ip) => ip.to_string(),
            Thing::Cidr(ip, bits) => network::cidr_text(*ip, *bits),
            Thing::Url(url) => url.to_string(),
            Thing::Semver(version) => version.to_string(),
            _ => return None,
        })
    }

    /// How many bytes it has, of addresses.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            Thing::Ip(ip) => Some(if ip.is_ipv4() { 4 } else { 16 }),
            Thing::Cidr(_, bits) => Some(usize::from(*bits).div_ceil(8)),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asker")
            .field("service_account", &self.service_account)
            .finish_non_exhaustive()
    }
}
