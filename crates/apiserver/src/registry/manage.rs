//! Who set which field of an object.

use k3_api::{
    apply::{
        FieldSet,
        managed::{OneVersion, Reset, Subject, Time as Moment},
    },
    kinds::Kind,
    rules::Rules,
    time::Time,
};
use serde_json::Value;

/// Calls `run` with what a write through a subresource is about.
pub(super) fn with_subject<R>(
    kind: &Kind,
    rules: &dyn Rules,
    subresource: &str,
    run: impl FnOnce(Subject<'_>) -> R,
) -> R {
    let api_version = kind.api_version();
    let mut blank = Value::Object(kind.ty.get().zero());
    blank["apiVersion"] = api_version.as_str().into();
    blank["kind"] = kind.kind.into();
    let reset = rules.reset(subresource).unwrap_or_else(|| {
        let has_status = kind.subresource("status").is_some();
        match subresource {
            "status" => Reset::Fields(FieldSet::of_fields(&[&["spec"]])),
            _ if has_status => Reset::Fields(FieldSet::of_fields(&[&["status"]])),
            _ => Reset::Nothing,
        }
    });
    run(Subject {
        api_version: &api_version,
        kind: kind.kind,
        subresource,
        typed: &kind.ty,
        blank: &blank,
        reset: &reset,
        versions: &OneVersion,
    })
}

/// A time as records of managers have it.
pub(super) fn moment(now: Time) -> Moment {
    Moment::from_unix_seconds(now.unix_seconds())
}
