//! OpenAPI paths of custom resources, which differ slightly from those of built-in ones.

use k3_api::{kinds::Kind, text::SharedText};

use super::{
    name::{capital, of_group},
    operation::{
        BodySchema, CREATE, CUSTOM, CUSTOM_PATCHES, DELETE_MANY, LIST, OpenApiOperation, OpenApiPath,
        OpenApiVerb, ResponseSchema, SINGLE,
    },
    parameter::OperationKind,
    paths::{article, base},
};

/// What the names of operations are made of.
struct OperationNames<'k> {
    kind: &'k Kind,
    /// `ComExampleStableV1`.
    prefix: String,
    tag: String,
    scope: &'static str,
}

/// The paths of a kind, whose type and that of its lists have these names.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder/builder.go buildRoute, newBuilder
pub(super) fn paths(kind: &Kind, object: &str, list: &str) -> Vec<OpenApiPath> {
    let word = of_group(&kind.group);
    let names = OperationNames {
        kind,
        prefix: format!("{}{}", capital(&word), capital(&kind.version)),
        tag: format!("{word}_{}", kind.version),
        scope: if kind.is_namespaced() { "Namespaced" } else { "" },
    };
    let object = SharedText::from(object.to_owned());
    let list = SharedText::from(list.to_owned());
    let base = base(&kind.group, &kind.version);
    let plural = &kind.plural;
    let everywhere = format!("{base}/{plural}");
    let mut paths = Vec::new();
    let many = if kind.is_namespaced() {
        let id = format!("{}{}ForAllNamespaces", names.prefix, kind.kind);
        let mut operation = names.operation(&LIST, &everywhere, &id, "list objects of kind");
        operation.answer = ResponseSchema::Custom(list.clone());
        paths.push(OpenApiPath {
            path: everywhere,
            operations: vec![operation],
        });
        format!("{base}/namespaces/{{namespace}}/{plural}")
    } else {
        everywhere
    };
    paths.push(names.collection(&many, &object, &list));
    let one = format!("{many}/{{name}}");
    paths.push(names.single(
        &one,
        "",
        &ResponseSchema::Custom(object.clone()),
        &BodySchema::Custom(object.clone()),
    ));
    for part in &kind.subresources {
        let (answer, body) = match part.ty.table() {
            Some(ty) => (ResponseSchema::Object(ty), BodySchema::Object(ty)),
            None => (
                ResponseSchema::Custom(object.clone()),
                BodySchema::Custom(object.clone()),
            ),
        };
        paths.push(names.single(&format!("{one}/{}", part.name), part.name, &answer, &body));
    }
    paths
}

// --- OperationNames ---

impl OperationNames<'_> {
    fn operation(&self, verb: &OpenApiVerb, path: &str, id: &str, description: &str) -> OpenApiOperation {
        let Kind {
            group, version, kind, ..
        } = self.kind;
        let about = [group.clone(), version.clone(), kind.clone()];
        let mut operation = verb.at(path, about, &self.tag, id);
        operation.description = format!("{description} {kind}");
        operation.produces = CUSTOM;
        operation.consumes = if verb.method == "patch" {
            CUSTOM_PATCHES
        } else {
            CUSTOM
        };
        operation
    }

    fn collection(&self, path: &str, object: &SharedText, list: &SharedText) -> OpenApiPath {
        let kind = &self.kind.kind;
        let id = format!("{}{}{kind}", self.prefix, self.scope);
        let mut all = self.operation(&LIST, path, &id, "list objects of kind");
        all.answer = ResponseSchema::Custom(list.clone());
        let mut create = self.operation(&CREATE, path, &id, "create");
        create.description = format!("create {}", article(kind));
        create.body = BodySchema::Custom(object.clone());
        create.answer = ResponseSchema::Custom(object.clone());
        let id = format!("{}Collection{}{kind}", self.prefix, self.scope);
        let mut delete = self.operation(&DELETE_MANY, path, &id, "delete collection of");
        delete.take(path, OperationKind::List);
        OpenApiPath {
            path: path.to_owned(),
            operations: vec![all, create, delete],
        }
    }

    fn single(&self, path: &str, part: &str, answer: &ResponseSchema, body: &BodySchema) -> OpenApiPath {
        let kind = &self.kind.kind;
        let id = format!("{}{}{kind}{}", self.prefix, self.scope, capital(part));
        let of = if part.is_empty() {
            String::new()
        } else {
            format!("{part} of ")
        };
        let verbs = SINGLE
            .iter()
            .filter(|(verb, _)| part.is_empty() || *verb != "delete");
        let operations = verbs.map(|(word, verb)| {
            let said = match *word {
                "update" => "replace",
                "patch" => "partially update",
                _ => "read",
            };
            let mut operation = self.operation(verb, path, &id, &format!("{said} {of}the specified"));
            operation.answer = answer.clone();
            match *word {
                "update" => operation.body = body.clone(),
                "patch" => {
                    operation.body = BodySchema::Patch;
                    operation.codes = &[200];
                }
                "delete" => {
                    operation.description = format!("delete {}", article(kind));
                    operation.body = BodySchema::DeleteOptions;
                    operation.answer = ResponseSchema::Meta("Status");
                }
                _ => {}
            }
            operation
        });
        OpenApiPath {
            path: path.to_owned(),
            operations: operations.collect(),
        }
    }
}
