//! CEL variables of admission webhooks and policies.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/compile.go BuildRequestType, BuildNamespaceType, mustBuildEnvs

mod check;
mod declare;

use std::sync::LazyLock;

use k3_cel::{DeclType, Environment, ListKind, ObjectDeclType, OpaqueType, Shape};

pub use self::{
    check::{ExpressionWarning, GroupVersionKind, MatchedResource, PolicyTypes, type_check, types_to_check},
    declare::{declared, declared_custom},
};

/// What an expression may speak of beside the request itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionalVariableDeclarations {
    /// The parameters of a policy.
    pub params: bool,
    /// Whom to ask what is allowed.
    pub authorizer: bool,
}

/// An environment with the variables that all expressions of admission have.
pub fn environment(reach: OptionalVariableDeclarations) -> Environment {
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
            .variable("authorizer", Shape::Opaque(OpaqueType::Authorizer))
            .variable(
                "authorizer.requestResource",
                Shape::Opaque(OpaqueType::ResourceCheck),
            );
    }
    environment
}

/// What `request` is declared as: what is asked, but for the objects.
pub static REQUEST: LazyLock<DeclType> = LazyLock::new(|| {
    let kind = object(
        "kubernetes.GroupVersionKind",
        &[("group", TEXT), ("version", TEXT), ("kind", TEXT)],
    );
    let resource = object(
        "kubernetes.GroupVersionResource",
        &[("group", TEXT), ("version", TEXT), ("resource", TEXT)],
    );
    let user = ObjectDeclType::new("kubernetes.UserInfo")
        .field("username", Shape::String)
        .field("uid", Shape::String)
        .field("groups", texts())
        .field("extra", DeclType::map(texts(), 0));
    let request = ObjectDeclType::new("kubernetes.AdmissionRequest")
        .field("kind", kind.clone())
        .field("resource", resource.clone())
        .field("subResource", Shape::String)
        .field("requestKind", kind)
        .field("requestResource", resource)
        .field("requestSubResource", Shape::String)
        .field("name", Shape::String)
        .plain("namespace", Shape::String)
        .field("operation", Shape::String)
        .field("userInfo", DeclType::object(user))
        .field("dryRun", Shape::Bool)
        .field("options", Shape::Dyn);
    DeclType::object(request)
});

/// What `namespaceObject` is declared as: the namespace of the object, without the fields that expressions may not see.
pub static NAMESPACE: LazyLock<DeclType> = LazyLock::new(|| {
    let labels = || DeclType::map(Shape::String.into(), 0);
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
    let status = ObjectDeclType::new("kubernetes.NamespaceStatus")
        .field("conditions", DeclType::list(condition, ListKind::Atomic, 0))
        .field("phase", Shape::String);
    let metadata = ObjectDeclType::new("kubernetes.NamespaceMetadata")
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
    let namespace = ObjectDeclType::new("kubernetes.Namespace")
        .field("metadata", DeclType::object(metadata))
        .field(
            "spec",
            DeclType::object(ObjectDeclType::new("kubernetes.NamespaceSpec").field("finalizers", texts())),
        )
        .field("status", DeclType::object(status));
    DeclType::object(namespace)
});

const TEXT: Shape = Shape::String;
const TIME: Shape = Shape::Timestamp;

fn texts() -> DeclType {
    DeclType::list(TEXT.into(), ListKind::Atomic, 0)
}

fn object(name: &str, fields: &[(&str, Shape)]) -> DeclType {
    DeclType::object(
        fields
            .iter()
            .fold(ObjectDeclType::new(name), |object, (field, shape)| {
                object.field(field, shape.clone())
            }),
    )
}
