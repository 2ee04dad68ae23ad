//! GET and LIST: resource version semantics, selectors, limit and continue tokens.

use std::{
    collections::BTreeMap,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use k3_api::{
    base64, decode, encode, go, protobuf,
    selector::{
        field::{self, FieldCondition},
        label,
    },
    status::Status,
    strategy::{Tree, TreeMut},
};
use k3_storage::{Key, Page, Prefix, ReadError, Revision};
use serde_json::{Value, json};

use super::{
    Registry, RequestContext, Resource,
    commit::unavailable,
    conversion::{shown, shown_all},
    decryption::{readable, readable_snapshot},
    freshness::{read_index, too_large_version},
    response, storage_version,
    table::{self, RowWriter},
};
use crate::{
    cache::{CacheVersion, CachedObject, Snapshot},
    http::{self as web, BodyStream, Format, HttpResponse, JsonLayout, ObjectForm, ResponseBody},
    request::{ListOptions, ResourceVersionMatch},
};

/// How long a read waits for a version that has not happened yet.
const PATIENCE: Duration = Duration::from_secs(3);
/// How much of a list is written at a time.
const PIECE: usize = 128 * 1024;
/// The kind of a list of metadata alone.
const METADATA_LIST: &str = "PartialObjectMetadataList";
/// The version of continue tokens.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// The label and field selectors of a list or watch, compiled for a resource.
pub(super) struct SelectionPredicate {
    labels: label::Selector,
    name: FieldCondition,
    namespace: FieldCondition,
    /// Those of the fields that the kind names, by position.
    fields: BTreeMap<usize, FieldCondition>,
}

/// One page of a list.
struct ListPage {
    revision: Revision,
    objects: Vec<Arc<CachedObject>>,
    /// Where the next page begins, if there is one.
    next: Option<ContinueToken>,
    /// `remainingItemCount`, where known.
    remaining: Option<usize>,
}

/// A continue token: where the next page starts, and at which resource version.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/continue.go continueToken, EncodeContinue, DecodeContinue
#[derive(Clone, Debug, PartialEq, Eq)]
struct ContinueToken {
    revision: Revision,
    /// The last key that was given, without what all keys of the list begin with.
    after: String,
}

/// A text that is no resource version, quoted.
#[derive(Debug, thiserror::Error)]
#[error("resourceVersion: Invalid value: {0}: strconv.ParseUint: parsing {0}: invalid syntax")]
pub(super) struct InvalidResourceVersion(String);

/// Why a text is not a continue token.
#[derive(Debug, thiserror::Error)]
enum ContinueTokenError {
    #[error(transparent)]
    Base64(#[from] base64::Base64Error),
    #[error(transparent)]
    Json(#[from] decode::DecodeError),
    /// Its version, quoted.
    #[error("server does not recognize this encoded version {0}")]
    Version(String),
    /// None, or none that there can be.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/continue.go DecodeContinue
    #[error("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")]
    Revision,
    /// Its key, quoted.
    #[error("invalid key {0}")]
    Key(String),
}

// --- Registry ---

impl Registry {
    /// GET: one object.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go GetResource
    pub(crate) async fn get(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        let version = ctx.query.text("resourceVersion");
        match version {
            "0" => {}
            "" => drop(read_index(&self.caches).await?),
            _ => {
                let revision =
                    parse_version(version).map_err(|error| Status::bad_request(error.to_string()))?;
                self.wait_for(revision).await?;
            }
        }
        let key = resource.key(&ctx.target.namespace, &ctx.target.name)?;
        let object = resource
            .cache
            .get(&key)
            .ok_or_else(|| resource.not_found(&ctx.target.name))?;
        let object = readable(&self.caches, &resource, object).await?;
        if resource.custom.is_some() && !resource.serves_as_stored(&object) {
            let tree = shown(&self.converter, object.tree(), &resource).await?;
            return response::tree(200, tree, ctx, &resource);
        }
        response::cached(200, &object, ctx, &resource)
    }

    /// GET: a list.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go ListResource
    pub(crate) async fn list(
        &self,
        ctx: &RequestContext,
        options: &ListOptions,
    ) -> Result<HttpResponse, Status> {
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        if ctx.accepted.form == ObjectForm::Metadata {
            return Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{})",
                response::go_type(&resource, "List")
            )));
        }
        let selection = SelectionPredicate::new(options, &resource)?;
        let listed = self.find(ctx, options, &resource, &selection).await?;
        let mut metadata = json!({"resourceVersion": listed.revision.to_string()});
        if let Some(token) = &listed.next {
            metadata["continue"] = token.write().into();
            if let Some(remaining) = listed.remaining {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        let objects = listed.objects;
        if let Some(item) = ItemFormat::of_bytes(ctx, &resource, &objects) {
            return Ok(answer_bytes(objects, item, &metadata, &resource));
        }
        if resource.custom.is_some() {
            let trees = objects.iter().map(|object| object.tree()).collect();
            let trees = shown_all(&self.converter, trees, &resource).await?;
            return answer_trees(trees, &metadata, ctx, &resource);
        }
        // One after the other: the trees of many objects at once would take ten times what is stored.
        let trees = objects
            .iter()
            .map(|object| storage_version::convert(object.tree(), &resource.stored, &resource.kind));
        answer_trees(trees, &metadata, ctx, &resource)
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go GetList
    async fn find(
        &self,
        ctx: &RequestContext,
        options: &ListOptions,
        resource: &Resource,
        selection: &SelectionPredicate,
    ) -> Result<ListPage, Status> {
        let prefix = resource.under(&ctx.target.namespace);
        // A negative limit is none, as upstream.
        let limit = usize::try_from(options.limit).unwrap_or(0);
        let token = match options.continuation.as_str() {
            "" => None,
            text => {
                let token = ContinueToken::read(text).map_err(|why| {
                    Status::bad_request(format!(
                        "invalid continue token: continue key is not valid: {why}"
                    ))
                })?;
                if !matches!(options.resource_version.as_str(), "" | "0") {
                    return Err(Status::bad_request(
                        "specifying resource version is not allowed when using continue",
                    ));
                }
                Some(token)
            }
        };
        let snapshot = match &token {
            // A token that came with "too old": what is left of the list as it is now.
            Some(token) if token.revision == Revision::ZERO => {
                read_index(&self.caches).await?;
                resource.cache.snapshot(self.caches.applied())
            }
            Some(token) => self
                .snapshot_at(resource, token.revision)
                .await
                .map_err(|status| {
                    if status.code == 410 {
                        expired(token)
                    } else {
                        status
                    }
                })?,
            None => self.snapshot(resource, options).await?,
        };
        let snapshot = readable_snapshot(&self.caches, resource, snapshot, &prefix).await?;
        let after = token.map(|token| format!("{prefix}{}", token.after));
        let mut objects: Vec<Arc<CachedObject>> = Vec::new();
        let mut next = None;
        let mut rest = snapshot.under(&prefix, after.as_deref());
        for object in rest.by_ref().filter(|object| selection.matches(object, resource)) {
            ctx.check_cancelled()?;
            if limit > 0 && objects.len() == limit {
                let last = objects.last().map_or("", |object| &object.key[prefix.len()..]);
                next = Some(ContinueToken {
                    revision: snapshot.revision,
                    after: last.to_owned(),
                });
                break;
            }
            objects.push(Arc::clone(object));
        }
        let remaining = (next.is_some() && selection.is_everything()).then(|| rest.count() + 1);
        if next.is_some() {
            resource.cache.keep_snapshot(&snapshot);
        }
        Ok(ListPage {
            revision: snapshot.revision,
            objects,
            next,
            remaining,
        })
    }

    /// The state that the options ask for.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go shouldDelegateExactRV
    async fn snapshot(&self, resource: &Resource, options: &ListOptions) -> Result<Snapshot, Status> {
        let revision = match options.resource_version.as_str() {
            "" => {
                read_index(&self.caches).await?;
                return Ok(resource.cache.snapshot(self.caches.applied()));
            }
            "0" => return Ok(resource.cache.snapshot(self.caches.applied())),
            text => parse_version(text)
                .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?,
        };
        self.wait_for(revision).await?;
        let exact = options.matching == Some(ResourceVersionMatch::Exact)
            || (options.matching.is_none() && options.limit > 0);
        if exact {
            return self.snapshot_at(resource, revision).await;
        }
        Ok(resource.cache.snapshot(self.caches.applied()))
    }

    /// The state at a revision: from memory, or from the history of the store.
    async fn snapshot_at(&self, resource: &Resource, revision: Revision) -> Result<Snapshot, Status> {
        if let Some(snapshot) = resource.cache.at(revision, self.caches.applied()) {
            return Ok(snapshot);
        }
        let prefix = Prefix::try_new(resource.under("")).map_err(Status::internal_error)?;
        let page = Page {
            at: Some(revision),
            ..Page::all()
        };
        match self.caches.store().range(&prefix, page).await {
            Ok(range) => {
                let objects = range.entries.into_iter().map(|entry| {
                    let object = CachedObject::new(entry.key.clone(), entry.value, entry.revision);
                    (entry.key, Arc::new(object))
                });
                Ok(Snapshot {
                    revision,
                    version: CacheVersion::NONE,
                    objects: objects.collect::<imbl::OrdMap<Key, _>>(),
                })
            }
            Err(ReadError::Store(error)) => Err(unavailable(&error)),
            Err(ReadError::Future { current, .. }) => Err(too_large_version(revision, current)),
            // The store has compacted the revision.
            // upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go NewResourceExpired
            Err(_) => Err(Status::expired(
                "The resourceVersion for the provided list is too old.",
            )),
        }
    }

    /// Waits for a revision, but not for ever.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/watch_cache.go waitUntilFreshLocked
    pub(super) async fn wait_for(&self, revision: Revision) -> Result<(), Status> {
        if self.caches.applied() >= revision {
            return Ok(());
        }
        let reached = async {
            // Another server may have written it. Reading the revision also makes the store deliver pending events.
            self.caches.read_index().await?;
            self.caches.wait_until_applied(revision).await;
            Ok(())
        };
        match tokio::time::timeout(PATIENCE, reached).await {
            Ok(reached) => reached.map_err(|error| unavailable(&error)),
            Err(_) => Err(too_large_version(revision, self.caches.applied())),
        }
    }
}

/// A resource version as a number.
pub(super) fn parse_version(text: &str) -> Result<Revision, InvalidResourceVersion> {
    text.parse()
        .map(Revision::new)
        .map_err(|_| InvalidResourceVersion(go::quote(text)))
}

// upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/errors.go handleCompactedErrorForPaging
fn expired(token: &ContinueToken) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the \
         continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing \
         with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the \
         time the first chunk was returned and now may show up in the list.",
    );
    status.continue_token = ContinueToken {
        revision: Revision::ZERO,
        after: token.after.clone(),
    }
    .write();
    status
}

// --- Answers ---

/// How an object that is stored is written as an item of a list.
enum ItemFormat {
    /// The list has the type metadata.
    Plain,
    /// Each item has type metadata, as custom objects do.
    Whole,
    /// Its metadata alone, as an object of this version.
    Metadata(&'static str),
    /// A row of a table.
    Row(RowWriter),
}

/// The beginning of a list, up to its items.
fn head(resource: &Resource, metadata: &Value) -> Vec<u8> {
    let mut metadata = metadata.clone();
    let list_kind = match &resource.custom {
        Some(served) => {
            // Lists of custom objects say that there is no more.
            metadata.set_default("continue", json!(""));
            served.definition.names.list_kind.clone()
        }
        None => resource.kind.list_kind(),
    };
    head_of(&list_kind, &resource.kind.api_version(), &metadata)
}

fn head_of(list_kind: &str, api_version: &str, metadata: &Value) -> Vec<u8> {
    format!("{{\"kind\":\"{list_kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[")
        .into_bytes()
}

/// Writes a list of stored objects as JSON; a long one is streamed, so that it is never in memory as a whole.
fn answer_bytes(
    objects: Vec<Arc<CachedObject>>,
    item: ItemFormat,
    metadata: &Value,
    resource: &Resource,
) -> HttpResponse {
    let head = match &item {
        ItemFormat::Metadata(version) => head_of(METADATA_LIST, &format!("meta.k8s.io/{version}"), metadata),
        ItemFormat::Plain | ItemFormat::Whole => head(resource, metadata),
        ItemFormat::Row(rows) => rows.head(metadata, resource),
    };
    let length: usize = objects.iter().map(|object| object.len()).sum();
    let mut list = ListBody {
        head: Some(head),
        objects: objects.into_iter(),
        item,
        first: true,
        ended: false,
        has_yielded: true,
    };
    let body = if length < PIECE {
        ResponseBody::from(list.piece(usize::MAX))
    } else {
        ResponseBody::Stream(Box::new(list))
    };
    web::answer(200, Format::Json.media(), body)
}

/// The body of a list.
struct ListBody {
    head: Option<Vec<u8>>,
    objects: std::vec::IntoIter<Arc<CachedObject>>,
    item: ItemFormat,
    first: bool,
    ended: bool,
    /// Whether others had their turn since the last piece.
    has_yielded: bool,
}

impl ItemFormat {
    /// How each of these objects is written without the others, and without a tree of all of it; `None` if one has to be read.
    fn of_bytes(ctx: &RequestContext, resource: &Resource, objects: &[Arc<CachedObject>]) -> Option<Self> {
        let accepted = ctx.accepted;
        if accepted.format != Format::Json || accepted.layout == JsonLayout::Indented {
            return None;
        }
        let (item, shows): (_, fn(&Resource, &CachedObject) -> bool) = match accepted.form {
            ObjectForm::Whole if resource.custom.is_some() => (ItemFormat::Whole, Resource::serves_as_stored),
            ObjectForm::Whole => (ItemFormat::Plain, Resource::serves_as_stored),
            ObjectForm::MetadataList => (ItemFormat::Metadata(accepted.version), response::shows_metadata),
            ObjectForm::Table => (
                ItemFormat::Row(RowWriter::of(ctx, resource)?),
                response::shows_metadata,
            ),
            ObjectForm::Metadata => return None,
        };
        objects
            .iter()
            .all(|object| shows(resource, object))
            .then_some(item)
    }
}

impl ListBody {
    /// Writes the next piece, of about this size, from at most twice as many bytes of objects.
    fn piece(&mut self, size: usize) -> Vec<u8> {
        let mut out = self.head.take().unwrap_or_default();
        out.reserve(size.min(PIECE + PIECE / 8));
        let mut read = 0;
        for object in self.objects.by_ref() {
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            match &self.item {
                ItemFormat::Plain => object.write_item(&mut out),
                ItemFormat::Whole => object.write(&mut out),
                ItemFormat::Metadata(version) => {
                    response::write_metadata(&mut out, &object, object.revision, version);
                }
                ItemFormat::Row(rows) => rows.write(&mut out, &object),
            }
            read += object.len();
            if out.len() >= size || read / 2 >= size {
                return out;
            }
        }
        self.ended = true;
        out.extend_from_slice(b"]}");
        out
    }
}

impl BodyStream for ListBody {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended {
            return Poll::Ready(None);
        }
        // A client that takes everything at once must not keep the thread from other connections.
        if !std::mem::replace(&mut self.has_yielded, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_yielded = false;
        Poll::Ready(Some(self.piece(PIECE).into()))
    }

    fn is_long(&self) -> bool {
        true
    }
}

/// Responds with a list of trees in the version of the request, in the negotiated form.
pub(super) fn answer_trees(
    trees: impl IntoIterator<Item = Value>,
    metadata: &Value,
    ctx: &RequestContext,
    resource: &Resource,
) -> Result<HttpResponse, Status> {
    let kind = &resource.kind;
    let accepted = ctx.accepted;
    // What is cut short here is refused below.
    let trees = trees.into_iter().take_while(|_| ctx.check_cancelled().is_ok());
    let answer = match accepted.form {
        ObjectForm::Table => {
            let table = table::of_list(trees, metadata, ctx, resource)?;
            Ok(web::json(
                200,
                encode::encode(&table),
                accepted.format,
                accepted.layout,
            ))
        }
        ObjectForm::MetadataList | ObjectForm::Metadata => {
            let items: Vec<_> = trees
                .map(|tree| response::metadata_of(&tree, accepted.version))
                .collect();
            let list = json!({
                "kind": METADATA_LIST,
                "apiVersion": format!("meta.k8s.io/{}", accepted.version),
                "metadata": metadata,
                "items": items,
            });
            response::value(200, &list, &response::meta_type(METADATA_LIST), ctx)
        }
        ObjectForm::Whole if accepted.format == Format::Protobuf => {
            let ty = kind.ty.table().ok_or_else(response::not_as_protobuf)?;
            let trees: Vec<_> = trees.collect();
            let message = protobuf::encode_list(&kind.api_version(), &kind.list_kind(), metadata, &trees, ty)
                .map_err(Status::internal_error)?;
            Ok(web::answer(200, accepted.format.media(), message))
        }
        ObjectForm::Whole => {
            let mut text = head(resource, metadata);
            for (index, mut tree) in trees.enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                if resource.custom.is_none()
                    && let Value::Object(fields) = &mut tree
                {
                    fields.remove("kind");
                    fields.remove("apiVersion");
                }
                text.extend_from_slice(&encode::encode(&tree));
            }
            text.extend_from_slice(b"]}");
            ctx.check_cancelled()?;
            Ok(web::json(200, text, accepted.format, accepted.layout))
        }
    };
    ctx.check_cancelled()?;
    answer
}

// --- SelectionPredicate ---

impl SelectionPredicate {
    /// What the options select, if the kind can be selected so.
    pub(super) fn new(options: &ListOptions, resource: &Resource) -> Result<Self, Status> {
        let mut selection = SelectionPredicate {
            labels: options.labels.clone(),
            name: FieldCondition::default(),
            namespace: FieldCondition::default(),
            fields: BTreeMap::new(),
        };
        for term in options.fields.terms() {
            match term.field.as_str() {
                "metadata.name" => selection.name.add(term),
                "metadata.namespace" if resource.strategy().selects_by_namespace() => {
                    selection.namespace.add(term);
                }
                field => match resource.cache.field_position(field) {
                    Some(position) if resource.selects_by(field) => {
                        selection.fields.entry(position).or_default().add(term);
                    }
                    _ => {
                        return Err(Status::bad_request(
                            resource.strategy().unsupported_field_label(field),
                        ));
                    }
                },
            }
        }
        Ok(selection)
    }

    /// Whether an object is selected.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/selection_predicate.go MatchesObjectAttributes
    pub(super) fn matches(&self, object: &CachedObject, resource: &Resource) -> bool {
        self.name.matches(object.name())
            && self.namespace.matches(object.namespace())
            && self.labels.is_everything_or(object)
            && self
                .fields
                .iter()
                .all(|(position, condition)| condition.matches(resource.cache.field(object, *position)))
    }

    /// Whether all objects are selected.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty()
            && self.name.is_everything()
            && self.namespace.is_everything()
            && self.fields.is_empty()
    }

    /// Narrows it to one name.
    pub(super) fn only(&mut self, name: &str) {
        self.name.add(&field::Term {
            field: "metadata.name".to_owned(),
            value: name.to_owned(),
            operator: field::Operator::Equals,
        });
    }

    /// The name, if the field selector selects a single object by `metadata.name`.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/selection_predicate.go MatchesSingle
    pub(super) fn name(&self) -> Option<&str> {
        self.name.exact()
    }

    /// The indexed field and its value, if the field selector requires one.
    pub(super) fn field(&self) -> Option<(usize, &str)> {
        self.fields
            .iter()
            .find_map(|(position, condition)| Some((*position, condition.exact()?)))
    }
}

trait SelectsObject {
    fn is_everything_or(&self, object: &CachedObject) -> bool;
}

impl SelectsObject for label::Selector {
    /// Labels are read only if the selector needs them.
    fn is_everything_or(&self, object: &CachedObject) -> bool {
        self.is_empty() || self.matches(&object.labels())
    }
}

// --- ContinueToken ---

impl ContinueToken {
    fn write(&self) -> String {
        let text =
            json!({"v": TOKEN_VERSION, "rv": self.revision.get(), "start": format!("{}\0", self.after)});
        base64::encode_url(text.to_string().as_bytes())
    }

    fn read(text: &str) -> Result<Self, ContinueTokenError> {
        let bytes = base64::decode_url(text)?;
        let decoded = decode::untyped(&bytes)?;
        let token = decoded.value;
        if token.text("v") != TOKEN_VERSION {
            return Err(ContinueTokenError::Version(go::quote(token.text("v"))));
        }
        let start = token.text("start");
        if start.split('/').any(|part| part == "." || part == "..") {
            return Err(ContinueTokenError::Key(go::quote(start)));
        }
        Ok(ContinueToken {
            revision: token
                .int("rv")
                .and_then(|rv| u64::try_from(rv).ok())
                .map(Revision::new)
                .ok_or(ContinueTokenError::Revision)?,
            after: start.trim_end_matches('\0').to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_token_names_a_revision() {
        let token = |rv: &Value| {
            let text = json!({"v": TOKEN_VERSION, "rv": rv, "start": "a\u{0}"});
            ContinueToken::read(&base64::encode_url(text.to_string().as_bytes()))
        };
        assert_eq!(token(&json!(7)).unwrap().revision, Revision::new(7));
        for rv in [json!(null), json!(-1), json!("7")] {
            assert_eq!(
                token(&rv).unwrap_err().to_string(),
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
            );
        }
    }
}
