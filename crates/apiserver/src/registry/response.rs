//! Encodes objects and lists in the negotiated form (object, Table, PartialObjectMetadata).

use k3_api::{
    encode, protobuf,
    schema::ObjectType,
    status::Status,
    strategy::{Tree, TreeMut},
};
use k3_storage::Revision;
use serde_json::{Value, json};

use super::{
    RequestContext, Resource, outcome::Outcome, pending_write::PendingWrite, storage_version, table,
};
pub(crate) use crate::http::warn;
use crate::{
    cache::CachedObject,
    http::{self as web, Format, HttpResponse, ObjectForm},
};

/// Responds with what became of a write.
pub(super) fn outcome<O>(
    code: u16,
    outcome: Outcome,
    write: &PendingWrite<'_, O>,
) -> Result<HttpResponse, Status> {
    let ctx = write.ctx;
    let mut answer = if is_plain(ctx, write.resource)
        && let Some(text) = outcome.text()
    {
        web::json(code, text, ctx.accepted.format, ctx.accepted.layout)
    } else {
        tree(code, outcome.into_tree(write.resource), ctx, write.resource)?
    };
    warn(&mut answer, &write.warnings.0);
    Ok(answer)
}

/// Responds with an object as it is stored.
pub(super) fn cached(
    code: u16,
    object: &CachedObject,
    ctx: &RequestContext,
    resource: &Resource,
) -> Result<HttpResponse, Status> {
    if is_plain(ctx, resource) {
        let mut text = Vec::new();
        object.write(&mut text);
        return Ok(web::json(code, text, ctx.accepted.format, ctx.accepted.layout));
    }
    // A custom object that is not converted is in the version of the request.
    let object = storage_version::convert(object.tree(), &resource.stored, &resource.kind);
    tree(code, object, ctx, resource)
}

/// Whether the text of an object is its response.
fn is_plain(ctx: &RequestContext, resource: &Resource) -> bool {
    let accepted = ctx.accepted;
    accepted.form == ObjectForm::Whole && accepted.format != Format::Protobuf && !resource.converts()
}

/// Responds with a tree in the version of the request.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go transformResponseObject, doTransformObject
pub(super) fn tree(
    code: u16,
    tree: Value,
    ctx: &RequestContext,
    resource: &Resource,
) -> Result<HttpResponse, Status> {
    let accepted = ctx.accepted;
    match accepted.form {
        ObjectForm::Whole => value(code, &tree, &resource.kind.ty, ctx),
        ObjectForm::Metadata => {
            let part = metadata_of(&tree, accepted.version);
            value(code, &part, &meta_type("PartialObjectMetadata"), ctx)
        }
        ObjectForm::MetadataList => Err(Status::not_acceptable(format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
            go_type(resource, "")
        ))),
        ObjectForm::Table => {
            let table = table::of_one(tree, ctx, resource)?;
            Ok(web::json(
                code,
                encode::encode(&table),
                accepted.format,
                accepted.layout,
            ))
        }
    }
}

/// Responds with a tree of any known type.
pub(super) fn value(
    code: u16,
    tree: &Value,
    ty: &ObjectType,
    ctx: &RequestContext,
) -> Result<HttpResponse, Status> {
    let accepted = ctx.accepted;
    if accepted.format == Format::Protobuf {
        let ty = ty.table().ok_or_else(not_as_protobuf)?;
        let message = protobuf::encode(tree, ty).map_err(Status::internal_error)?;
        return Ok(web::answer(code, accepted.format.media(), message));
    }
    Ok(web::json(
        code,
        encode::encode(tree),
        accepted.format,
        accepted.layout,
    ))
}

/// 406: custom resources have no protobuf encoding.
pub(super) fn not_as_protobuf() -> Status {
    Status::not_acceptable("only the following media types are accepted: application/json, application/yaml")
}

/// The metadata of an object, as an object of its own.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go asPartialObjectMetadata
pub(super) fn metadata_of(tree: &Value, version: &str) -> Value {
    let mut part = json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": tree.at("metadata"),
    });
    // What only the whole object is given when it is shown.
    let metadata = part.ensure_object("metadata");
    if metadata.at("annotations").has(TEMPLATE_GENERATION) {
        metadata.ensure_object("annotations").remove(TEMPLATE_GENERATION);
        if metadata.entries("annotations").is_empty() {
            metadata.remove("annotations");
        }
    }
    part
}

/// Whether the metadata that clients see are those that are stored.
pub(super) fn shows_metadata(resource: &Resource, object: &CachedObject) -> bool {
    resource.kind.kind != "DaemonSet" && resource.serves_as_stored(object)
}

/// Appends the metadata of an object as an object of its own, without reading it: there may be very many.
pub(super) fn write_metadata(out: &mut Vec<u8>, object: &CachedObject, revision: Revision, version: &str) {
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/");
    out.extend_from_slice(version.as_bytes());
    out.extend_from_slice(b"\",\"metadata\":");
    if object.write_metadata(out, revision).is_none() {
        out.extend_from_slice(&encode::encode(object.tree_at(revision).at("metadata")));
    }
    out.push(b'}');
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn meta_type(name: &str) -> ObjectType {
    k3_api::schema::schema()
        .get("meta", "v1", name)
        .expect("the table has the types of metadata")
        .into()
}

/// The Go type of a kind inside the server, which appears in messages.
pub(super) fn go_type(resource: &Resource, suffix: &str) -> String {
    if resource.kind.strategy.is_some() {
        return format!("unstructured.Unstructured{suffix}");
    }
    let group = &*resource.kind.group;
    let package = if group.is_empty() {
        "core"
    } else {
        group.split('.').next().unwrap_or_default()
    };
    format!("{package}.{}{suffix}", resource.kind.kind)
}

/// Brings a tree that was built here into the normal form of its type.
pub(super) fn normal(tree: &Value, ty: &ObjectType) -> Value {
    ty.normalize(tree)
        .map_or_else(|_| tree.clone(), |decoded| decoded.value)
}
