//! Encodes objects and lists in the negotiated form (object, Table, PartialObjectMetadata).

use std::sync::Arc;

use bytes::Bytes;
use k3_api::{
    encode,
    encode::StoredObject,
    protobuf,
    schema::ObjectType,
    status::Status,
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use super::{RequestContext, Resource, request_context::Warnings, storage_version, table};
pub(crate) use crate::http::warn;
use crate::{
    cache::CachedObject,
    http::{self as web, Format, HttpResponse, ObjectForm},
};

/// An object to respond with.
pub(super) enum ResponseObject {
    /// It is stored.
    Stored {
        /// As it is stored.
        bytes: Bytes,
        /// The commit that wrote it.
        revision: u64,
        /// In the version it was validated in.
        object: Arc<Value>,
    },
    /// It is as it was.
    Kept(Arc<CachedObject>),
    /// It would have been stored.
    Dry(Value),
}

/// Responds with an object.
pub(super) fn object(
    code: u16,
    made: &ResponseObject,
    ctx: &RequestContext,
    resource: &Resource,
    warnings: &Warnings,
) -> Result<HttpResponse, Status> {
    let accepted = ctx.accepted;
    let is_plain =
        accepted.form == ObjectForm::Whole && accepted.format != Format::Protobuf && !resource.converts();
    let mut answer = if is_plain && let Some(text) = made.text() {
        web::json(code, text, accepted.format, accepted.pretty)
    } else {
        tree(code, made.tree(resource), ctx, resource)?
    };
    warn(&mut answer, &warnings.0);
    Ok(answer)
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
                accepted.pretty,
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
        accepted.pretty,
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
pub(super) fn write_metadata(out: &mut Vec<u8>, object: &CachedObject, revision: u64, version: &str) {
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

// --- ResponseObject ---

impl ResponseObject {
    /// The JSON text, if it can be had without making one.
    fn text(&self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        match self {
            ResponseObject::Stored { bytes, revision, .. } => {
                StoredObject::find(bytes)?.write(&mut text, *revision);
            }
            ResponseObject::Kept(object) => object.write(&mut text),
            ResponseObject::Dry(tree) => text = encode::encode(tree),
        }
        Some(text)
    }

    /// The object in the version of the request.
    pub(super) fn tree(&self, resource: &Resource) -> Value {
        match self {
            ResponseObject::Stored { revision, object, .. } => {
                let validation_kind = storage_version::validation_kind(&resource.kind);
                let mut tree = storage_version::convert((**object).clone(), validation_kind, &resource.kind);
                tree.ensure_object("metadata")
                    .set("resourceVersion", revision.to_string());
                tree
            }
            // A custom object that is kept is in the version of the request.
            ResponseObject::Kept(object) => {
                storage_version::convert(object.tree(), &resource.stored, &resource.kind)
            }
            ResponseObject::Dry(tree) => {
                let validation_kind = storage_version::validation_kind(&resource.kind);
                storage_version::convert(tree.clone(), validation_kind, &resource.kind)
            }
        }
    }
}

/// Brings a tree that was built here into the normal form of its type.
pub(super) fn normal(tree: &Value, ty: &ObjectType) -> Value {
    ty.normalize(tree)
        .map_or_else(|_| tree.clone(), |decoded| decoded.value)
}
