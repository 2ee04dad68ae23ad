//! Whole documents, written piece by piece: a document of megabytes never stands in memory as a tree.

use std::{collections::BTreeMap, sync::Arc};

use k3_api::{
    custom::published::{self, PublishedModels},
    kinds::{Kind, builtin},
    text::SharedText,
};
use serde_json::{Value, json};

use super::{
    custom,
    definition::{Definitions, OpenApiVersion},
    gnostic, leaf,
    name::{capital, of_group},
    operation::{OpenApiOperation, OpenApiPath, ResponseSchema},
    paths, render,
};
use crate::discovery::version;

/// A group and version with its kinds.
type GroupVersionKinds = ((&'static str, &'static str), Vec<&'static Kind>);

/// What a document is about: groups and versions, and paths.
type GroupDocumentContent = (Vec<(SharedText, SharedText)>, Vec<OpenApiPath>);

/// The names of the documents of version 3: paths below `/openapi/v3/`, sorted.
pub(super) fn names() -> Vec<String> {
    let mut names: Vec<String> = ROOTS.iter().map(|root| root.0.to_owned()).collect();
    for ((group, version), _) in versions() {
        names.push(paths::base(group, version)[1..].to_owned());
        if !group.is_empty() {
            names.push(format!("apis/{group}"));
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// The document of version 3 with a name; `None` if there is none.
pub(super) fn version_3(name: &str) -> Option<Vec<u8>> {
    let (groups, paths) = part(name)?;
    let info = json!({"title": "Kubernetes", "version": "unversioned"});
    Some(write_3(
        &info,
        &paths,
        Definitions::new(OpenApiVersion::V3, groups),
    ))
}

/// The version 3 document of a custom group and version. Each kind is given with its stored definition.
pub(super) fn custom_3(kinds: &[(Arc<Kind>, Value)]) -> Vec<u8> {
    let groups = kinds.iter().take(1);
    let groups = groups.map(|(kind, _)| (kind.group.clone(), kind.version.clone()));
    let mut definitions = Definitions::new(OpenApiVersion::V3, groups.collect());
    let mut paths = Vec::new();
    for (kind, crd) in kinds {
        if let Some(models) = published::v3(crd, &kind.version) {
            paths.extend(custom_paths(kind, &models));
            definitions.define(models);
        }
    }
    paths.sort_by(|a, b| a.path.cmp(&b.path));
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    write_3(&info, &paths, definitions)
}

fn custom_paths(kind: &Kind, models: &PublishedModels) -> Vec<OpenApiPath> {
    custom::paths(kind, &models.object.0, &models.list.0)
}

fn write_3(info: &Value, paths: &[OpenApiPath], mut definitions: Definitions) -> Vec<u8> {
    let mut text = Vec::with_capacity(1 << 16);
    text.extend_from_slice(br#"{"openapi":"3.0.0","info":"#);
    write(&mut text, info);
    text.extend_from_slice(br#","paths":"#);
    write_map(
        &mut text,
        paths
            .iter()
            .map(|path| (path.path.clone(), render::path(path, &mut definitions))),
    );
    text.extend_from_slice(br#","components":{"#);
    if let Some(first) = definitions.next() {
        text.extend_from_slice(br#""schemas":"#);
        write_map(
            &mut text,
            std::iter::once(first).chain(std::iter::from_fn(|| definitions.next())),
        );
        text.push(b',');
    }
    text.extend_from_slice(br#""securitySchemes":"#);
    write(&mut text, &security());
    text.extend_from_slice(b"}}");
    text
}

/// The document of version 2, as JSON.
pub(super) fn version_2(custom: &[(Arc<Kind>, Value)]) -> Vec<u8> {
    let (paths, mut definitions) = everything(custom);
    let mut text = Vec::with_capacity(1 << 20);
    text.extend_from_slice(br#"{"swagger":"2.0","info":"#);
    write(&mut text, &info());
    text.extend_from_slice(br#","paths":"#);
    write_map(
        &mut text,
        paths
            .iter()
            .map(|path| (path.path.clone(), render::path(path, &mut definitions))),
    );
    text.extend_from_slice(br#","definitions":"#);
    write_map(&mut text, std::iter::from_fn(|| definitions.next()));
    text.extend_from_slice(br#","securityDefinitions":"#);
    write(&mut text, &security());
    text.extend_from_slice(br#","security":[{"BearerToken":[]}]}"#);
    text
}

/// The same, as protobuf.
pub(super) fn version_2_protobuf(custom: &[(Arc<Kind>, Value)]) -> Vec<u8> {
    let (paths, mut definitions) = everything(custom);
    let mut message = gnostic::GnosticDocument::new(&info());
    for path in &paths {
        message.path(&path.path, &render::path(path, &mut definitions));
    }
    while let Some((name, definition)) = definitions.next() {
        message.definition(&name, &definition);
    }
    message.finish(&security())
}

/// All paths, and the definitions they will want.
fn everything(custom: &[(Arc<Kind>, Value)]) -> (Vec<OpenApiPath>, Definitions) {
    let groups = versions()
        .into_iter()
        .map(|(version, _)| texts(version))
        .collect();
    let mut all: Vec<OpenApiPath> = names()
        .iter()
        .filter_map(|name| part(name))
        .flat_map(|(_, paths)| paths)
        .collect();
    let mut definitions = Definitions::new(OpenApiVersion::V2, groups);
    for (kind, crd) in custom {
        if let Some(models) = published::v2(crd, &kind.version) {
            all.extend(custom_paths(kind, &models));
            definitions.define(models);
        }
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    (all, definitions)
}

/// The groups and versions that are built in, with their kinds.
fn versions() -> Vec<GroupVersionKinds> {
    let mut versions: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for kind in builtin().all() {
        let version = (kind.group.as_str(), kind.version.as_str());
        versions.entry(version).or_default().push(kind);
    }
    versions.into_iter().collect()
}

/// Documents that are not of a group: the name, the operation's name, what it does, its tag, its answer, and its
/// media types if they are not those of objects.
type RootDocument = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    ResponseSchema,
    Option<&'static [&'static str]>,
);

const ROOTS: [RootDocument; 5] = [
    (
        ".well-known/openid-configuration",
        "getServiceAccountIssuerOpenIDConfiguration",
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        "WellKnown",
        ResponseSchema::Text,
        Some(&["application/json"]),
    ),
    (
        "api",
        "getCoreAPIVersions",
        "get available API versions",
        "core",
        ResponseSchema::Meta("APIVersions"),
        None,
    ),
    (
        "apis",
        "getAPIVersions",
        "get available API versions",
        "apis",
        ResponseSchema::Meta("APIGroupList"),
        None,
    ),
    (
        "openid/v1/jwks",
        "getServiceAccountIssuerOpenIDKeyset",
        "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        "openid",
        ResponseSchema::Text,
        Some(&["application/jwk-set+json"]),
    ),
    (
        "version",
        "getCodeVersion",
        "get the version information for this server",
        "version",
        ResponseSchema::Leaf(leaf::VERSION_INFO),
        Some(&["application/json"]),
    ),
];

/// The groups and the paths of the document with a name.
fn part(name: &str) -> Option<GroupDocumentContent> {
    if let Some((_, id, description, tag, answer, produces)) = ROOTS.iter().find(|root| root.0 == name) {
        let mut operation = OpenApiOperation::document(id, description, tag, answer.clone());
        operation.produces = produces.unwrap_or(operation.produces);
        return Some((Vec::new(), vec![at_root(name, operation)]));
    }
    let mut versions = versions();
    if let Some(position) = versions
        .iter()
        .position(|((group, version), _)| paths::base(group, version)[1..] == *name)
    {
        let (version, kinds) = versions.swap_remove(position);
        let mut paths = paths::paths(&kinds);
        paths.sort_by(|a, b| a.path.cmp(&b.path));
        return Some((vec![texts(version)], paths));
    }
    let group = name.strip_prefix("apis/")?;
    versions
        .iter()
        .find(|((known, _), _)| *known == group && !group.is_empty())?;
    let word = of_group(group);
    let operation = OpenApiOperation::document(
        &format!("get{}APIGroup", capital(&word)),
        "get information of a group",
        &word,
        ResponseSchema::Meta("APIGroup"),
    );
    Some((Vec::new(), vec![at_root(name, operation)]))
}

fn texts((group, version): (&'static str, &'static str)) -> (SharedText, SharedText) {
    (group.into(), version.into())
}

fn at_root(name: &str, operation: OpenApiOperation) -> OpenApiPath {
    OpenApiPath {
        path: format!("/{name}/"),
        operations: vec![operation],
    }
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": version()["gitVersion"]})
}

fn security() -> Value {
    json!({"BearerToken": {
        "description": "Bearer Token authentication",
        "in": "header",
        "name": "authorization",
        "type": "apiKey",
    }})
}

fn write_map(text: &mut Vec<u8>, entries: impl Iterator<Item = (String, Value)>) {
    text.push(b'{');
    for (position, (name, value)) in entries.enumerate() {
        if position > 0 {
            text.push(b',');
        }
        write(text, &Value::String(name));
        text.push(b':');
        write(text, &value);
    }
    text.push(b'}');
}

fn write(text: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(text, value).expect("a tree can be written to memory");
}
