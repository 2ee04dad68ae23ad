//! The types of what expressions of admission speak of.

use std::sync::{Arc, LazyLock};

use k3_cel::{Decl, ListKind, ObjectDecl, Opaque, Shape};

/// `request`: what is asked, but for the objects.
pub(super) static REQUEST: LazyLock<Decl> = LazyLock::new(|| {
    let kind = object(
        "kubernetes.GroupVersionKind",
        [("group", text()), ("version", text()), ("kind", text())],
    );
    let resource = object(
        "kubernetes.GroupVersionResource",
        [("group", text()), ("version", text()), ("resource", text())],
    );
    let user = object(
        "kubernetes.UserInfo",
        [
            ("username", text()),
            ("uid", text()),
            ("groups", list(text())),
            ("extra", map(list(text()))),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", text()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Decl::from(Shape::Bool)),
            ("options", Decl::from(Shape::Dyn)),
        ],
    )
});

/// `namespaceObject`: the namespace of the object, without what is nobody's business.
pub(super) static NAMESPACE: LazyLock<Decl> = LazyLock::new(|| {
    let time = || Decl::from(Shape::Timestamp);
    let number = || Decl::from(Shape::Int);
    let condition = object(
        "kubernetes.NamespaceCondition",
        [
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", time()),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", map(text())),
            ("annotations", map(text())),
            ("UID", text()),
            ("creationTimestamp", time()),
            ("deletionGracePeriodSeconds", number()),
            ("deletionTimestamp", time()),
            ("generation", number()),
            ("resourceVersion", text()),
            ("finalizers", list(text())),
        ],
    );
    object(
        "kubernetes.Namespace",
        [
            ("metadata", metadata),
            (
                "spec",
                object("kubernetes.NamespaceSpec", [("finalizers", list(text()))]),
            ),
            (
                "status",
                object(
                    "kubernetes.NamespaceStatus",
                    [("conditions", list(condition)), ("phase", text())],
                ),
            ),
        ],
    )
});

/// `authorizer`.
pub(super) fn authorizer() -> Decl {
    Decl::from(Shape::Opaque(Opaque::Authorizer))
}

/// `authorizer.requestResource`.
pub(super) fn resource_check() -> Decl {
    Decl::from(Shape::Opaque(Opaque::ResourceCheck))
}

fn text() -> Decl {
    Decl::from(Shape::String)
}

fn list(items: Decl) -> Decl {
    Decl::from(Shape::List(Arc::new(items), ListKind::Atomic))
}

fn map(values: Decl) -> Decl {
    Decl::from(Shape::Map(Arc::new(text()), Arc::new(values)))
}

fn object<const N: usize>(name: &str, fields: [(&str, Decl); N]) -> Decl {
    let fields = fields
        .into_iter()
        .fold(ObjectDecl::new(name), |object, (name, decl)| {
            object.field(name, decl)
        });
    Decl::from(Shape::Object(Arc::new(fields)))
}
