//! OpenAPI operations of a path.

use k3_api::{schema::StructRef, text::SharedText};

use super::parameter::{OpenApiParameter, OperationKind, of, of_path};

/// One operation.
#[derive(Debug)]
pub(super) struct OpenApiOperation {
    /// The HTTP method, in small letters.
    pub(super) method: &'static str,
    /// A name that no other operation has.
    pub(super) id: String,
    /// What it does.
    pub(super) description: String,
    /// The group and version it belongs to, in one word.
    pub(super) tag: String,
    /// What it is to Kubernetes; documents of the server have none.
    pub(super) action: Option<&'static str>,
    /// Group, version and kind of what it is about.
    pub(super) about: Option<[SharedText; 3]>,
    /// What the body is.
    pub(super) body: BodySchema,
    /// What the answer is.
    pub(super) answer: ResponseSchema,
    /// The codes of good answers.
    pub(super) codes: &'static [u16],
    /// The media types of good answers.
    pub(super) produces: &'static [&'static str],
    /// The media types of bodies.
    pub(super) consumes: &'static [&'static str],
    /// What may stand in path and query.
    pub(super) parameters: Vec<OpenApiParameter>,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(super) enum BodySchema {
    /// None.
    None,
    /// An object, which must be there.
    Object(StructRef),
    /// A custom object, by the name of its type.
    Custom(SharedText),
    /// How to delete, which may be left out.
    DeleteOptions,
    Patch,
}

/// What an answer shows.
#[derive(Clone, Debug)]
pub(super) enum ResponseSchema {
    /// A struct.
    Object(StructRef),
    /// A custom object or a list of them, by the name of its type.
    Custom(SharedText),
    /// A kind that belongs to every group, such as `Status`.
    Meta(&'static str),
    /// A type without fields.
    Leaf(&'static str),
    /// Text.
    Text,
}

/// A path, and what can be asked there.
#[derive(Debug)]
pub(super) struct OpenApiPath {
    /// The path, with names in braces for what varies.
    pub(super) path: String,
    /// What can be asked.
    pub(super) operations: Vec<OpenApiOperation>,
}

/// The media types of objects.
pub(super) const OBJECTS: &[&str] = &[
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
];
/// Those of custom objects.
pub(super) const CUSTOM: &[&str] = &["application/json", "application/yaml"];
/// Those of lists and watches.
pub(super) const STREAMS: &[&str] = &[
    "application/json",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/yaml",
];
/// Those of patches.
pub(super) const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
/// Those of patches of custom objects.
pub(super) const CUSTOM_PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
];
/// That of connections.
pub(super) const ANYTHING: &[&str] = &["*/*"];
/// Those of a log.
pub(super) const LOG: &[&str] = &[
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
    "text/plain",
];

/// A verb, and how its operation differs from the others.
pub(super) struct OpenApiVerb {
    /// The HTTP method.
    pub(super) method: &'static str,
    /// What it is to Kubernetes.
    pub(super) action: &'static str,
    /// What its name begins with.
    pub(super) word: &'static str,
    /// Which parameters it takes.
    pub(super) sort: OperationKind,
    /// The codes of good answers.
    pub(super) codes: &'static [u16],
}

/// What can be done with one object or a part of it: the verb, and its operation.
pub(super) const SINGLE: [(&str, OpenApiVerb); 4] = [
    (
        "get",
        OpenApiVerb::new("get", "get", "read", OperationKind::Read, &[200]),
    ),
    (
        "update",
        OpenApiVerb::new("put", "put", "replace", OperationKind::Write, &[200, 201]),
    ),
    (
        "patch",
        OpenApiVerb::new("patch", "patch", "patch", OperationKind::Patch, &[200, 201]),
    ),
    (
        "delete",
        OpenApiVerb::new("delete", "delete", "delete", OperationKind::Delete, &[200, 202]),
    ),
];

/// A create.
pub(super) const CREATE: OpenApiVerb =
    OpenApiVerb::new("post", "post", "create", OperationKind::Write, &[200, 201, 202]);
/// A list.
pub(super) const LIST: OpenApiVerb = OpenApiVerb::new("get", "list", "list", OperationKind::List, &[200]);
/// A delete of many.
pub(super) const DELETE_MANY: OpenApiVerb = OpenApiVerb::new(
    "delete",
    "deletecollection",
    "delete",
    OperationKind::DeleteMany,
    &[200],
);

// --- OpenApiVerb ---

impl OpenApiVerb {
    const fn new(
        method: &'static str,
        action: &'static str,
        word: &'static str,
        sort: OperationKind,
        codes: &'static [u16],
    ) -> Self {
        Self {
            method,
            action,
            word,
            sort,
            codes,
        }
    }

    /// The operation at a path. `id` follows the verb in its name.
    pub(super) fn at(&self, path: &str, about: [SharedText; 3], tag: &str, id: &str) -> OpenApiOperation {
        let mut operation = OpenApiOperation {
            method: self.method,
            id: format!("{}{id}", self.word),
            description: String::new(),
            tag: tag.to_owned(),
            action: Some(self.action),
            about: Some(about),
            body: BodySchema::None,
            answer: ResponseSchema::Meta("Status"),
            codes: self.codes,
            produces: OBJECTS,
            consumes: if self.method == "patch" { PATCHES } else { ANYTHING },
            parameters: Vec::new(),
        };
        operation.take(path, self.sort);
        operation
    }
}

// --- OpenApiOperation ---

impl OpenApiOperation {
    /// Gives it the parameters of its path and its sort.
    pub(super) fn take(&mut self, path: &str, sort: OperationKind) {
        let kind = self.about.as_ref().map_or("", |[_, _, kind]| kind);
        self.parameters = of_path(path, kind);
        self.parameters.extend(of(sort));
        self.parameters.sort_by_key(OpenApiParameter::name);
    }

    /// A read of a document of the server.
    pub(super) fn document(id: &str, description: &str, tag: &str, answer: ResponseSchema) -> Self {
        Self {
            method: "get",
            id: id.to_owned(),
            description: description.to_owned(),
            tag: tag.to_owned(),
            action: None,
            about: None,
            body: BodySchema::None,
            answer,
            codes: &[200],
            produces: OBJECTS,
            consumes: ANYTHING,
            parameters: Vec::new(),
        }
    }
}
