//! What is known by its functions alone.

use std::{net::IpAddr, sync::Arc};

use k3_quantity::Quantity;

use super::Value;
use crate::{
    decl::OpaqueType,
    error::EvalError,
    function::{format::Format, network, semver::Semver, url::Url},
};

/// Something with functions of its own.
#[derive(Clone, Debug)]
pub enum OpaqueValue {
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
    Authorizer(AuthorizerHandle),
    /// A question about a path.
    PathCheck(AuthorizerHandle, Arc<str>),
    /// The beginning of a question about resources of a group.
    GroupCheck(AuthorizerHandle, Arc<str>),
    /// A question about a resource.
    ResourceCheck(AuthorizerHandle, Arc<ResourceCheck>),
    /// An answer.
    Decision(Arc<Decision>),
}

/// Whom to ask, and for whom.
#[derive(Clone)]
pub struct AuthorizerHandle {
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
        Value::Opaque(OpaqueValue::Authorizer(AuthorizerHandle {
            authorizer,
            service_account: None,
        }))
    }

    /// A question about a resource that lacks its verb: `authorizer.requestResource`.
    pub fn resource_check(authorizer: Arc<dyn Authorizer>, check: ResourceCheck) -> Self {
        Value::Opaque(OpaqueValue::ResourceCheck(
            AuthorizerHandle {
                authorizer,
                service_account: None,
            },
            Arc::new(check),
        ))
    }
}

// --- OpaqueValue ---

impl OpaqueValue {
    pub(crate) fn opaque(&self) -> OpaqueType {
        match self {
            OpaqueValue::Quantity(_) => OpaqueType::Quantity,
            OpaqueValue::Ip(_) => OpaqueType::Ip,
            OpaqueValue::Cidr(..) => OpaqueType::Cidr,
            OpaqueValue::Url(_) => OpaqueType::Url,
            OpaqueValue::Semver(_) => OpaqueType::Semver,
            OpaqueValue::Format(_) => OpaqueType::Format,
            OpaqueValue::Authorizer(_) => OpaqueType::Authorizer,
            OpaqueValue::PathCheck(..) => OpaqueType::PathCheck,
            OpaqueValue::GroupCheck(..) => OpaqueType::GroupCheck,
            OpaqueValue::ResourceCheck(..) => OpaqueType::ResourceCheck,
            OpaqueValue::Decision(_) => OpaqueType::Decision,
        }
    }

    pub(crate) fn equals(&self, other: &OpaqueValue) -> Result<bool, EvalError> {
        Ok(match (self, other) {
            (OpaqueValue::Quantity(a), OpaqueValue::Quantity(b)) => a == b,
            (OpaqueValue::Ip(a), OpaqueValue::Ip(b)) => a == b,
            (OpaqueValue::Cidr(a, bits), OpaqueValue::Cidr(b, others)) => a == b && bits == others,
            (OpaqueValue::Url(a), OpaqueValue::Url(b)) => a == b,
            (OpaqueValue::Semver(a), OpaqueValue::Semver(b)) => a == b,
            (OpaqueValue::Format(a), OpaqueValue::Format(b)) => a.name == b.name,
            _ => return Err(EvalError::no_such_overload()),
        })
    }

    /// The text it is written as, if it is.
    pub(crate) fn text(&self) -> Option<String> {
        Some(match self {
            OpaqueValue::Quantity(quantity) => quantity.to_string(),
            OpaqueValue::Ip(ip) => ip.to_string(),
            OpaqueValue::Cidr(ip, bits) => network::cidr_text(*ip, *bits),
            OpaqueValue::Url(url) => url.to_string(),
            OpaqueValue::Semver(version) => version.to_string(),
            _ => return None,
        })
    }

    /// How many bytes it has, of addresses.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            OpaqueValue::Ip(ip) => Some(if ip.is_ipv4() { 4 } else { 16 }),
            OpaqueValue::Cidr(_, bits) => Some(usize::from(*bits).div_ceil(8)),
            _ => None,
        }
    }
}

impl std::fmt::Debug for AuthorizerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthorizerHandle")
            .field("service_account", &self.service_account)
            .finish_non_exhaustive()
    }
}
