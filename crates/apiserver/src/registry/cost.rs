//! Estimates the cost of a request before it runs, from its body and the stored objects (work estimator).

use super::{RequestContext, Resource, delete};
use crate::{
    cache::WatchCache,
    http::{Format, JsonLayout, NegotiatedMediaType, ObjectForm},
    pipeline::Verb,
};
use k3_storage::Revision;

/// What an object of a list counts for in bytes if it is read and written again; and if it is written as it is stored, while the
/// answer is sent; and if it is only looked at.
const CONVERTED: usize = 1024;
const STREAMED: usize = 32;
const SELECTED: usize = 8;
/// The operations of a JSON patch make more of their text than other formats do.
const JSON_PATCH: usize = 64;
/// YAML takes longer to read than JSON.
const YAML: usize = 4;
/// Custom objects are validated by the schema and the expressions of their definition.
const CUSTOM: usize = 4;

/// So many objects of a namespace are counted at most: more of them would take up more of a thread than the estimate is worth.
const MAX_COUNTED: usize = 16 * 1024;

/// An estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestCost {
    /// Bytes that are worked on.
    pub bytes: usize,
    /// Objects that are processed.
    pub objects: usize,
}

/// Estimates the cost of a request for a resource.
pub(crate) fn estimate(ctx: &RequestContext, verb: Verb, resource: &Resource) -> RequestCost {
    let weight = if resource.custom.is_some() { CUSTOM } else { 1 };
    match verb {
        Verb::List | Verb::Watch | Verb::DeleteCollection => {
            let mut objects = objects_processed(ctx, resource);
            if verb == Verb::DeleteCollection {
                // One chunk after the other.
                objects = objects.min(delete::AT_ONCE);
            }
            let is_streamed =
                ctx.accepted.format == Format::Json && ctx.accepted.layout == JsonLayout::Compact;
            let each = match verb {
                Verb::Watch => SELECTED,
                Verb::List if is_streamed => STREAMED,
                _ => CONVERTED,
            };
            RequestCost {
                bytes: objects * each + ctx.body.len(),
                objects,
            }
        }
        Verb::Get => RequestCost {
            bytes: if is_written_as_stored(ctx.accepted) && !resource.converts() {
                0
            } else {
                stored_bytes(ctx, resource) * weight
            },
            objects: 1,
        },
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => RequestCost {
            bytes: (body_bytes(ctx) + stored_bytes(ctx, resource)) * weight,
            objects: 1,
        },
    }
}

/// How many objects a list processes: all in its namespace, because selectors are evaluated for each; with a limit and no
/// selector, the limit.
// upstream: staging/src/k8s.io/apiserver/pkg/util/flowcontrol/request/list_work_estimator.go seatsBasedOnObjectCount
fn objects_processed(ctx: &RequestContext, resource: &Resource) -> usize {
    if !ctx.target.name.is_empty() || ctx.query.text("fieldSelector").starts_with("metadata.name=") {
        return 1;
    }
    let stored = if ctx.target.namespace.is_empty() {
        resource.cache.count()
    } else {
        count_under(&resource.cache, &resource.under(&ctx.target.namespace))
    };
    let selects = ["labelSelector", "fieldSelector"]
        .iter()
        .any(|selector| !ctx.query.text(selector).is_empty());
    match ctx.query.text("limit").parse() {
        Ok(limit) if limit > 0 && !selects => stored.min(limit),
        _ => stored,
    }
}

/// How many objects there are under a prefix, up to [`MAX_COUNTED`].
fn count_under(cache: &WatchCache, prefix: &str) -> usize {
    let snapshot = cache.snapshot(Revision::ZERO);
    snapshot.under(prefix, None).take(MAX_COUNTED).count()
}

/// Whether stored objects are sent without transformation.
fn is_written_as_stored(accepted: NegotiatedMediaType) -> bool {
    accepted.form == ObjectForm::Whole
        && accepted.format == Format::Json
        && accepted.layout == JsonLayout::Compact
}

fn body_bytes(ctx: &RequestContext) -> usize {
    let bytes = ctx.body.len();
    if ctx.media.starts_with("application/json-patch+json") {
        bytes * JSON_PATCH
    } else if ctx.media.contains("yaml") {
        bytes * YAML
    } else {
        bytes
    }
}

/// The bytes of the object that a request names, as it is stored.
fn stored_bytes(ctx: &RequestContext, resource: &Resource) -> usize {
    if ctx.target.name.is_empty() {
        return 0;
    }
    let key = resource.key(&ctx.target.namespace, &ctx.target.name);
    let object = key.ok().and_then(|key| resource.cache.get(&key));
    object.map_or(0, |object| object.len())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use k3_api::{kinds::builtin, time::Time};
    use k3_storage::{Key, Store, Write, memory::MemoryStore};

    use super::*;
    use crate::{cache::WatchCaches, registry::own_user};

    #[tokio::test]
    async fn cost_counts_only_objects_of_namespace() {
        let store = MemoryStore::new();
        let (caches, _feed) = WatchCaches::fill(store.clone(), |_| [].into()).await.unwrap();
        for (namespace, count) in [("large", 100), ("small", 3)] {
            for number in 0..count {
                let key = format!("/registry/core/configmaps/{namespace}/{number}");
                let write = Write::create(Key::try_new(key).unwrap(), Bytes::from_static(b"{}"));
                store.commit(write).await.unwrap();
            }
        }
        caches.read_index().await.unwrap();
        let kind = builtin().kind("", "v1", "ConfigMap").unwrap();
        let resource = Resource::of(kind, &caches);
        let cost = |namespace, verb| {
            let ctx = RequestContext::own(kind, namespace, own_user(), Time::from_unix(0, 0));
            estimate(&ctx, verb, &resource)
        };
        assert_eq!(cost("small", Verb::List).objects, 3);
        assert_eq!(cost("small", Verb::List).bytes, 3 * STREAMED);
        assert_eq!(cost("none", Verb::Watch).objects, 0);
        assert_eq!(cost("", Verb::List).objects, 103);
        assert_eq!(cost("small", Verb::DeleteCollection).bytes, 3 * CONVERTED);
        // Deleted in chunks, and charged for one.
        for namespace in ["large", ""] {
            let deletion = cost(namespace, Verb::DeleteCollection);
            assert_eq!(deletion.objects, delete::AT_ONCE);
            assert_eq!(deletion.bytes, delete::AT_ONCE * CONVERTED);
        }
    }
}
