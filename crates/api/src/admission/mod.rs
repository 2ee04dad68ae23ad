//! What expressions of webhooks and policies may speak of.

mod check;
mod declare;

use std::sync::LazyLock;

use k3_cel::{Decl, Environment, ListKind, ObjectDecl, Opaque, Shape};

pub use self::{
    check::{GroupVersionKind, Matched, Types, Warning, check, kinds},
    declare::{declared, declared_custom},
};

/// What an expression may speak of beside the request itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The parameters of a policy.
    pub params: bool,
    /// Whom to ask what is allowed.
    pub authorizer: bool,
}

/// An environment with the variables that all expressions of admission have.
pub fn environment(reach: Reach) -> Environment {
    let mut environment = Environment::new()
        .variable("object", Shape::Dyn)
        .variable("oldObject", Shape::Dyn)
        .variable("namespaceObject", NAMESPACE.clone())
        .variable("request", REQUEST.clone());
    if reach.params {
        environment = environment.variable("params", Shape::Dyn);
    }
    if reach.authorizer {
        environment = environment
            .variable("authorizer", Shape::Opaque(Opaque::Authorizer))
            .variable("authorizer.requestResource", Shape::Opaque(Opaque::ResourceCheck));
    }
    environment
}

/// What `request` is declared as: what is asked, but for the objects.
pub static REQUEST: LazyLock<Decl> = LazyLock::new(|| {
    let kind = object(
        "kubernetes.GroupVersionKind",
        &[("group", TEXT), ("version", TEXT), ("kind", TEXT)],
    );
    let resource = object(
        "kubernetes.GroupVersionResource",
        &[("group", TEXT), ("version", TEXT), ("resource", TEXT)],
    );
    let user = ObjectDecl::new("kubernetes.UserInfo")
        .field("username", Shape::String)
        .field("uid", Shape::String)
        .field("groups", texts())
        .field("extra", Decl::map(texts(), 0));
    let request = ObjectDecl::new("kubernetes.AdmissionRequest")
        .field("kind", kind.clone())
        .field("resource", resource.clone())
        .field("subResource", Shape::String)
        .field("requestKind", kind)
        .field("requestResource", resource)
        .field("requestSubResource", Shape::String)
        .field("name", Shape::String)
        .plain("namespace", Shape::String)
        .field("operation", Shape::String)
        .field("userInfo", Decl::object(user))
        .field("dryRun", Shape::Bool)
        .field("options", Shape::Dyn);
    Decl::object(request)
});

/// What `namespaceObject` is declared as: the namespace of the object, but for what is nobody's business.
pub static NAMESPACE: LazyLock<Decl> = LazyLock::new(|| {
    let labels = || Decl::map(Shape::String.into(), 0);
    let condition = object(
        "kubernetes.NamespaceCondition",
        &[
            ("status", TEXT),
            ("type", TEXT),
            ("lastTransitionTime", TIME),
            ("message", TEXT),
            ("reason", TEXT),
        ],
    );
    let status = ObjectDecl::new("kubernetes.NamespaceStatus")
        .field("conditions", Decl::list(condition, ListKind::Atomic, 0))
        .field("phase", Shape::String);
    let metadata = ObjectDecl::new("kubernetes.NamespaceMetadata")
        .field("name", Shape::String)
        .field("generateName", Shape::String)
        .plain("namespace", Shape::String)
        .field("labels", labels())
        .field("annotations", labels())
        .field("UID", Shape::String)
        .field("creationTimestamp", Shape::Timestamp)
        .field("deletionGracePeriodSeconds", Shape::Int)
        .field("deletionTimestamp", Shape::Timestamp)
        .field("generation", Shape::Int)
        .field("resourceVersion", Shape::String)
        .field("finalizers", texts());
    let namespace = ObjectDecl::new("kubernetes.Namespace")
        .field("metadata", Decl::object(metadata))
        .field(
            "spec",
            Decl::object(ObjectDecl::new("kubernetes.NamespaceSpec").field("finalizers", texts())),
        )
        .field("status", Decl::object(status));
    Decl::object(namespace)
});

const TEXT: Shape = Shape::String;
const TIME: Shape = Shape::Timestamp;

fn texts() -> Decl {
    Decl::list(TEXT.into(), ListKind::Atomic, 0)
}

fn object(name: &str, fields: &[(&str, Shape)]) -> Decl {
    Decl::object(
        fields
            .iter()
            .fold(ObjectDecl::new(name), |object, (field, shape)| {
                object.field(field, shape.clone())
            }),
    )
}
