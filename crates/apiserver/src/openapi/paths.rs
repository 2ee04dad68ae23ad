//! OpenAPI paths of a built-in group and version.

use k3_api::{
    kinds::{Kind, Subresource},
    schema::{ObjectType, StructRef, schema},
    text::SharedText,
};

use super::{
    name::{capital, of_group},
    operation::{
        ANYTHING, BodySchema, CREATE, DELETE_MANY, LIST, LOG, OpenApiOperation, OpenApiPath, OpenApiVerb,
        ResponseSchema, SINGLE, STREAMS,
    },
    parameter::OperationKind,
};

/// Parts that are connected to rather than read: the part, and with which methods.
const CONNECTED: [(&str, &[&str]); 4] = [
    ("attach", &["get", "post"]),
    ("exec", &["get", "post"]),
    ("portforward", &["get", "post"]),
    (
        "proxy",
        &["delete", "get", "head", "options", "patch", "post", "put"],
    ),
];

/// A kind, and what the names of its operations are made of.
struct KindPaths {
    kind: &'static Kind,
    /// `/api/v1`, `/apis/apps/v1`.
    base: String,
    /// `core_v1`, `rbacAuthorization_v1`.
    tag: String,
    /// `CoreV1`, `RbacAuthorizationV1`.
    prefix: String,
    /// `Namespaced`, or nothing.
    scope: &'static str,
}

/// Where a group and version are served.
pub(super) fn base(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    }
}

/// The paths of some kinds, which are of one group and version.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go registerResourceHandlers
pub(super) fn paths(kinds: &[&'static Kind]) -> Vec<OpenApiPath> {
    let mut paths: Vec<OpenApiPath> = kinds
        .iter()
        .flat_map(|kind| KindPaths::new(kind).paths())
        .filter(|path| !path.operations.is_empty())
        .collect();
    if let Some(kind) = kinds.first() {
        let subject = KindPaths::new(kind);
        paths.push(OpenApiPath {
            path: format!("{}/", subject.base),
            operations: vec![OpenApiOperation::document(
                &format!("get{}APIResources", subject.prefix),
                "get available resources",
                &subject.tag,
                ResponseSchema::Meta("APIResourceList"),
            )],
        });
    }
    paths
}

// --- KindPaths ---

impl KindPaths {
    fn new(kind: &'static Kind) -> Self {
        let word = of_group(&kind.group);
        Self {
            kind,
            base: base(&kind.group, &kind.version),
            tag: format!("{word}_{}", kind.version),
            prefix: format!("{}{}", capital(&word), capital(&kind.version)),
            scope: if kind.is_namespaced() { "Namespaced" } else { "" },
        }
    }

    fn about(&self) -> [SharedText; 3] {
        let Kind {
            group, version, kind, ..
        } = self.kind;
        [group.clone(), version.clone(), kind.clone()]
    }

    fn paths(&self) -> Vec<OpenApiPath> {
        let plural = &*self.kind.plural;
        let within = if self.kind.is_namespaced() {
            format!("namespaces/{{namespace}}/{plural}")
        } else {
            plural.to_owned()
        };
        let many = format!("{}/{within}", self.base);
        let one = format!("{many}/{{name}}");
        let mut paths = vec![self.collection(&many), self.single(&one)];
        if self.kind.is_namespaced() && self.kind.allows("list") {
            paths.push(self.everywhere(&format!("{}/{plural}", self.base)));
        }
        if self.kind.allows("watch") {
            paths.extend(self.watches(&within));
        }
        for part in &self.kind.subresources {
            paths.extend(self.part(part, &format!("{one}/{}", part.name)));
        }
        paths
    }

    /// The collection: list, create, delete many.
    fn collection(&self, path: &str) -> OpenApiPath {
        let Self {
            kind,
            tag,
            prefix,
            scope,
            ..
        } = self;
        let id = format!("{prefix}{scope}{}", kind.kind);
        let mut operations = Vec::new();
        if kind.allows("list") {
            operations.push(self.list(path, &id));
        }
        if kind.allows("create") {
            let mut operation = CREATE.at(path, self.about(), tag, &id);
            operation.description = format!("create {}", article(&kind.kind));
            operation.body = BodySchema::Object(table(&kind.ty));
            operation.answer = ResponseSchema::Object(table(&kind.ty));
            operations.push(operation);
        }
        if kind.allows("deletecollection") {
            let id = format!("{prefix}Collection{scope}{}", kind.kind);
            let mut operation = DELETE_MANY.at(path, self.about(), tag, &id);
            operation.description = format!("delete collection of {}", kind.kind);
            operation.body = BodySchema::DeleteOptions;
            operations.push(operation);
        }
        OpenApiPath {
            path: path.to_owned(),
            operations,
        }
    }

    /// The objects of all namespaces.
    fn everywhere(&self, path: &str) -> OpenApiPath {
        let id = format!("{}{}ForAllNamespaces", self.prefix, self.kind.kind);
        OpenApiPath {
            path: path.to_owned(),
            operations: vec![self.list(path, &id)],
        }
    }

    fn list(&self, path: &str, id: &str) -> OpenApiOperation {
        let kind = self.kind;
        let mut operation = LIST.at(path, self.about(), &self.tag, id);
        let watch = if kind.allows("watch") { " or watch" } else { "" };
        operation.description = format!("list{watch} objects of kind {}", kind.kind);
        operation.answer = list_of(kind).map_or(ResponseSchema::Text, ResponseSchema::Object);
        operation.produces = STREAMS;
        operation
    }

    fn single(&self, path: &str) -> OpenApiPath {
        let kind = self.kind;
        let id = format!("{}{}{}", self.prefix, self.scope, kind.kind);
        let wanted = SINGLE.iter().filter(|(verb, _)| kind.allows(verb));
        let operations = wanted.map(|(_, verb)| {
            let mut operation = verb.at(path, self.about(), &self.tag, &id);
            self.fill(&mut operation, table(&kind.ty), "");
            if verb.action == "delete" {
                operation.description = format!("delete {}", article(&kind.kind));
                operation.body = BodySchema::DeleteOptions;
                if !kind.returns_deleted_object() {
                    operation.answer = ResponseSchema::Meta("Status");
                }
            }
            operation
        });
        OpenApiPath {
            path: path.to_owned(),
            operations: operations.collect(),
        }
    }

    /// Fills in body, answer and description of an operation on an object, or on the part `of` it.
    fn fill(&self, operation: &mut OpenApiOperation, ty: StructRef, of: &str) {
        let kind = &*self.kind.kind;
        let of = if of.is_empty() {
            String::new()
        } else {
            format!("{of} of ")
        };
        operation.answer = ResponseSchema::Object(ty);
        let word = match operation.method {
            "put" => {
                operation.body = BodySchema::Object(ty);
                "replace"
            }
            "patch" => {
                operation.body = BodySchema::Patch;
                "partially update"
            }
            "post" => {
                operation.body = BodySchema::Object(ty);
                operation.description = format!("create {of}{}", article(kind));
                return;
            }
            _ => "read",
        };
        operation.description = format!("{word} {of}the specified {kind}");
    }

    /// The old paths of watches.
    fn watches(&self, within: &str) -> Vec<OpenApiPath> {
        let Self {
            kind, prefix, scope, ..
        } = self;
        let many = "watch individual changes to a list of ";
        let one = "watch changes to an object of kind ";
        let instead = "deprecated: use the 'watch' parameter with a list operation instead";
        let narrowed = ", filtered to a single item with the 'fieldSelector' parameter";
        let mut found = vec![
            (
                format!("{}/watch/{within}", self.base),
                format!("{prefix}{scope}{}List", kind.kind),
                "watchlist",
                format!("{many}{}. {instead}.", kind.kind),
            ),
            (
                format!("{}/watch/{within}/{{name}}", self.base),
                format!("{prefix}{scope}{}", kind.kind),
                "watch",
                format!("{one}{}. {instead}{narrowed}.", kind.kind),
            ),
        ];
        if kind.is_namespaced() {
            found.push((
                format!("{}/watch/{}", self.base, kind.plural),
                format!("{prefix}{}ListForAllNamespaces", kind.kind),
                "watchlist",
                format!("{many}{}. {instead}.", kind.kind),
            ));
        }
        let paths = found.into_iter().map(|(path, id, action, description)| {
            let mut operation = LIST.at(&path, self.about(), &self.tag, &id);
            operation.id = format!("watch{id}");
            operation.action = Some(action);
            operation.description = description;
            operation.answer = ResponseSchema::Meta("WatchEvent");
            operation.produces = STREAMS;
            OpenApiPath {
                path,
                operations: vec![operation],
            }
        });
        paths.collect()
    }

    /// The paths of a part of an object.
    fn part(&self, part: &'static Subresource, path: &str) -> Vec<OpenApiPath> {
        if let Some((name, methods)) = CONNECTED.iter().find(|(name, _)| *name == part.name) {
            let mut paths = vec![self.connected(part, path, name, methods, "")];
            if *name == "proxy" {
                paths.push(self.connected(part, &format!("{path}/{{path}}"), name, methods, "WithPath"));
            }
            return paths;
        }
        let about = [part.group.clone(), part.version.clone(), part.kind.clone()];
        let id = format!(
            "{}{}{}{}",
            self.prefix,
            self.scope,
            self.kind.kind,
            capital(part.name)
        );
        let mut operations: Vec<_> = SINGLE
            .iter()
            .filter(|(verb, _)| part.verbs.contains(verb))
            .map(|(_, verb)| verb.at(path, about.clone(), &self.tag, &id))
            .collect();
        if part.verbs.contains(&"create") {
            operations.push(CREATE.at(path, about.clone(), &self.tag, &id));
        }
        for operation in &mut operations {
            self.fill(operation, table(&part.ty), part.name);
            if part.name == "log" {
                operation.take(path, OperationKind::Connect("log"));
                operation.answer = ResponseSchema::Text;
                operation.produces = LOG;
            }
        }
        vec![OpenApiPath {
            path: path.to_owned(),
            operations,
        }]
    }

    fn connected(
        &self,
        part: &'static Subresource,
        path: &str,
        name: &'static str,
        methods: &'static [&'static str],
        ending: &str,
    ) -> OpenApiPath {
        let about = [part.group.clone(), part.version.clone(), part.kind.clone()];
        let operations = methods.iter().map(|method| {
            let verb = OpenApiVerb {
                method,
                action: "connect",
                word: "connect",
                sort: OperationKind::Connect(name),
                codes: &[200],
            };
            let Self {
                prefix, scope, kind, ..
            } = self;
            let id = format!(
                "{prefix}{}{scope}{}{}{ending}",
                capital(method),
                kind.kind,
                capital(name)
            );
            let mut operation = verb.at(path, about.clone(), &self.tag, &id);
            operation.description = format!(
                "connect {} requests to {name} of {}",
                method.to_uppercase(),
                kind.kind
            );
            operation.answer = ResponseSchema::Text;
            operation.produces = ANYTHING;
            operation
        });
        OpenApiPath {
            path: path.to_owned(),
            operations: operations.collect(),
        }
    }
}

/// The type of a built-in kind.
fn table(ty: &ObjectType) -> StructRef {
    ty.table().expect("these are the paths of built-in kinds")
}

/// The type of a list of a kind's objects.
fn list_of(kind: &Kind) -> Option<StructRef> {
    let of = table(&kind.ty).get();
    schema().get(of.package, of.version, &kind.list_kind())
}

/// A kind with its article; a plural has none.
pub(super) fn article(kind: &str) -> String {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        kind.to_owned()
    } else if kind.starts_with(['A', 'E', 'I', 'O', 'U']) {
        format!("an {kind}")
    } else {
        format!("a {kind}")
    }
}
