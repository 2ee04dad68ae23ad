//! Objects that are larger than any store takes: they are refused before more is computed for them.
//!
//! upstream refuses them when etcd does, at the end of the request. A dry run upstream does not notice; here it is answered as
//! the write would be.

use std::io;

use k3_api::{
    status::Status,
    strategy::{self, StrategyContext, Tree, WrittenPart},
};
use k3_storage::MAX_VALUE_BYTES;
use serde::Serialize;
use serde_json::Value;

use super::{RequestContext, Resource, commit};
use crate::http::Format;

/// Whether the record of managed fields in an object is the one that will be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManagedFields {
    /// It is replaced later.
    Pending,
    /// It is.
    Recorded,
}

/// A body that cannot become too large, or not by much.
const SHORT_BODY: usize = 64 * 1024;

/// Kinds that have a limit of their own for the size of all values: the answer names it.
const LIMITED_KINDS: [&str; 2] = ["ConfigMap", "Secret"];

/// Refuses an object that is too large for every store. What a write through this path does not change does not count.
///
/// # Errors
/// 413; or 422 from the rules of a kind with a limit of its own.
pub(super) fn check(
    object: &Value,
    old: Option<&Value>,
    managed_fields: ManagedFields,
    ctx: &RequestContext,
    resource: &Resource,
) -> Result<(), Status> {
    if resource.converts() || fits(object, managed_fields, ctx, resource) {
        return Ok(());
    }
    let kind = &resource.kind;
    if kind.strategy.is_none() && LIMITED_KINDS.contains(&&*kind.kind) && exceeds_own_limit(object) {
        let at = StrategyContext {
            kind,
            now: ctx.now,
            user: &ctx.user,
        };
        let mut object = object.clone();
        match old {
            Some(old) => drop(strategy::update(&mut object, old, WrittenPart::Object, &at)?),
            None => drop(strategy::create(&mut object, &at)?),
        }
    }
    Err(commit::too_large())
}

/// The same, before anything is computed for the object. After that it is checked anyway, so the object of a short JSON body is not
/// looked at here. That of a YAML or protobuf body may be many times as large as the body: by aliases, or by zero values that are
/// left out in it.
///
/// # Errors
/// 413; or 422 from the rules of a kind with a limit of its own.
pub(super) fn check_before_defaults(
    object: &Value,
    ctx: &RequestContext,
    resource: &Resource,
) -> Result<(), Status> {
    let is_short = ctx.body.len() <= SHORT_BODY && ctx.format() == Some(Format::Json);
    if is_short {
        return Ok(());
    }
    check(object, None, ManagedFields::Pending, ctx, resource)
}

fn fits(object: &Value, managed_fields: ManagedFields, ctx: &RequestContext, resource: &Resource) -> bool {
    let part = ctx.target.part();
    let has_status = resource.kind.subresource("status").is_some();
    let is_counted = |name: &str| match part {
        "" => name != "status" || !has_status,
        "status" => name == "status",
        _ => false,
    };
    let Value::Object(fields) = object else {
        return true;
    };
    if most_bytes(object) <= MAX_VALUE_BYTES {
        return true;
    }
    let mut budget = Budget(MAX_VALUE_BYTES);
    let mut counted = fields.iter().filter(|(name, _)| is_counted(name));
    counted.all(|(name, value)| match (name.as_str(), value) {
        ("metadata", Value::Object(metadata)) => metadata
            .iter()
            .filter(|(name, _)| match name.as_str() {
                "resourceVersion" => false,
                "managedFields" => managed_fields == ManagedFields::Recorded,
                _ => true,
            })
            .all(|(name, value)| budget.takes(name, value)),
        (name, value) => budget.takes(name, value),
    })
}

/// Whether the values of an object may take more bytes than the rules of its kind allow.
// upstream: pkg/apis/core/validation/validation.go ValidateConfigMap, ValidateSecret
fn exceeds_own_limit(object: &Value) -> bool {
    const MAX_SECRET_SIZE: usize = 1024 * 1024;
    let values = ["data", "binaryData", "stringData"]
        .into_iter()
        .flat_map(|field| object.entries(field).values());
    values
        .map(|value| value.as_str().map_or(0, str::len))
        .sum::<usize>()
        > MAX_SECRET_SIZE
}

/// At least as many bytes as a value has as JSON. Costs far less than to write it, and most objects are far below the limit.
fn most_bytes(value: &Value) -> usize {
    // A byte of text takes at most six: `\u001f`.
    let text = |text: &str| text.len() * 6 + 2;
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 32,
        Value::String(value) => text(value),
        Value::Array(items) => items.iter().map(|item| most_bytes(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| text(name) + most_bytes(value) + 2)
                .sum::<usize>()
                + 2
        }
    }
}

/// How many more bytes there may be.
struct Budget(usize);

// --- Budget ---

impl Budget {
    /// Whether a field fits. It is not looked at further than that.
    fn takes(&mut self, name: &str, value: &Value) -> bool {
        let mut serializer = serde_json::Serializer::new(self);
        name.serialize(&mut serializer).is_ok() && value.serialize(&mut serializer).is_ok()
    }
}

impl io::Write for &mut Budget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.0.checked_sub(bytes.len());
        self.0 = left.ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k3_api::{kinds::builtin, time::Time};
    use k3_storage::memory::MemoryStore;
    use serde_json::json;

    use super::*;
    use crate::{cache::WatchCaches, registry::own_user};

    /// The code of the answer to an object that is created.
    async fn code(group: &str, kind: &str, object: &Value, managed_fields: ManagedFields) -> Option<u16> {
        let (caches, _feed) = WatchCaches::fill(MemoryStore::new(), |_| [].into())
            .await
            .unwrap();
        let kind = builtin().kind(group, "v1", kind).unwrap();
        let resource = Resource::of(kind, &caches);
        let ctx = RequestContext::own(kind, "a", own_user(), Time::from_unix(0, 0));
        let checked = check(object, None, managed_fields, &ctx, &resource);
        checked.err().map(|status| status.code)
    }

    #[tokio::test]
    async fn refuses_what_no_store_takes() {
        let text = |count: usize| "x".repeat(count);
        let metadata = json!({"name": "a", "namespace": "a"});
        let pod = |count| json!({"metadata": metadata, "spec": {"nodeName": text(count)}});
        assert_eq!(
            code("", "Pod", &pod(MAX_VALUE_BYTES - 100), ManagedFields::Pending).await,
            None
        );
        assert_eq!(
            code("", "Pod", &pod(MAX_VALUE_BYTES), ManagedFields::Pending).await,
            Some(413)
        );
        // Its own rule has an answer of its own.
        let map = json!({"metadata": metadata, "data": {"a": text(MAX_VALUE_BYTES)}});
        assert_eq!(
            code("", "ConfigMap", &map, ManagedFields::Pending).await,
            Some(422)
        );
        let keys: serde_json::Map<_, _> = (0..200_000).map(|key| (format!("k{key}"), json!(""))).collect();
        let map = json!({"metadata": metadata, "data": keys});
        assert_eq!(
            code("", "ConfigMap", &map, ManagedFields::Pending).await,
            Some(413)
        );
    }

    #[tokio::test]
    async fn short_yaml_and_protobuf_bodies_are_checked_before_defaults() {
        let (caches, _feed) = WatchCaches::fill(MemoryStore::new(), |_| [].into())
            .await
            .unwrap();
        let kind = builtin().kind("", "v1", "Pod").unwrap();
        let resource = Resource::of(kind, &caches);
        let mut ctx = RequestContext::own(kind, "a", own_user(), Time::from_unix(0, 0));
        let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "x".repeat(MAX_VALUE_BYTES)}});
        for (media, code) in [
            ("application/json", None),
            ("application/yaml", Some(413)),
            ("application/vnd.kubernetes.protobuf", Some(413)),
        ] {
            media.clone_into(&mut ctx.media);
            let checked = check_before_defaults(&pod, &ctx, &resource);
            assert_eq!(checked.err().map(|status| status.code), code, "{media}");
        }
    }

    #[test]
    fn no_value_has_more_bytes_than_estimated() {
        for value in [
            json!({"a\u{1f}": ["\u{1}\u{2}", null, false, -1.797_693_134_862_315_7e-308, u64::MAX, {}, []]}),
            json!(i64::MIN),
            json!(""),
        ] {
            assert!(most_bytes(&value) >= value.to_string().len(), "{value}");
        }
    }

    #[tokio::test]
    async fn does_not_count_what_is_not_stored() {
        let text = "x".repeat(MAX_VALUE_BYTES);
        let pod = json!({"metadata": {"name": "a"}, "status": {"message": text}});
        assert_eq!(code("", "Pod", &pod, ManagedFields::Pending).await, None);
        let pod = json!({"metadata": {"name": "a", "managedFields": [{"manager": text}]}});
        assert_eq!(code("", "Pod", &pod, ManagedFields::Pending).await, None);
        assert_eq!(code("", "Pod", &pod, ManagedFields::Recorded).await, Some(413));
    }
}
