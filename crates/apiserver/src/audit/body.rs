//! Decodes request and response bodies for audit events.

use k3_api::{
    decode,
    kinds::{Kind, builtin},
    protobuf,
    schema::schema,
};
use serde_json::Value;

use crate::http::Format;

/// A body as a tree; `None` if it is none. Patches have media types of their own, and are JSON or YAML.
pub(super) fn tree(bytes: &[u8], media: &str) -> Option<Value> {
    if bytes.is_empty() {
        return None;
    }
    let is_yaml = media.contains("yaml");
    match Format::of_media(media) {
        Some(Format::Protobuf) => message(bytes),
        _ if is_yaml => decode::yaml_to_json(bytes).ok().map(|decoded| decoded.value),
        _ => decode::untyped(bytes).ok().map(|decoded| decoded.value),
    }
}

/// An object in protobuf, decoded by the kind in its envelope.
fn message(bytes: &[u8]) -> Option<Value> {
    let envelope = protobuf::unwrap(bytes).ok()?;
    if (envelope.api_version.as_str(), envelope.kind.as_str()) == ("v1", "Status") {
        return protobuf::decode(bytes, schema().get("meta", "v1", "Status")?).ok();
    }
    let mut kinds = builtin().all().iter();
    let is_it = |kind: &&Kind| *kind.kind == *envelope.kind && kind.api_version() == envelope.api_version;
    protobuf::decode(bytes, kinds.find(is_it)?.ty.table()?).ok()
}
