//! Applied configurations, onto objects with any record of who set what.

use k3_api::{
    apply::{
        FieldSet,
        managed::{self, ApplyConflictPolicy, FieldManager, ResetFields, SingleVersion},
    },
    time::Time,
};
use serde_json::{Value, json};

use super::{
    change::{self, Pair},
    run::run,
    samples,
};

#[test]
fn any_apply_configuration_is_applied_or_rejected() {
    run(
        &change::pairs(&samples::objects(), samples::TOKENS),
        |Pair(live, configuration)| {
            let Some(ty) = samples::of(live) else { return };
            let text = |name: &str| live[name].as_str().unwrap_or_default();
            let mut blank = Value::Object(ty.get().zero());
            blank["apiVersion"] = live["apiVersion"].clone();
            blank["kind"] = live["kind"].clone();
            let reset = ResetFields::Fields(FieldSet::of_fields(&[&["status"]]));
            let subject = FieldManager {
                api_version: text("apiVersion"),
                kind: text("kind"),
                subresource: "",
                typed: &ty,
                blank: &blank,
                reset: &reset,
                versions: &SingleVersion,
            };
            let now = Time::from_unix(1_700_000_000, 0);
            let mut configuration = configuration.clone();
            if let Some(metadata) = configuration
                .pointer_mut("/metadata")
                .and_then(Value::as_object_mut)
            {
                metadata.remove("managedFields");
            }
            for (force, manager) in [
                (ApplyConflictPolicy::No, "kubectl"),
                (ApplyConflictPolicy::Yes, "m"),
            ] {
                for live in [None, Some(live)] {
                    if let Ok(object) = subject.apply(live, &configuration, manager, force, now) {
                        managed::check(&object).expect("a record that was written can be read");
                    }
                }
            }
            let mut new = configuration.clone();
            if new.is_object() && new["metadata"].is_object() {
                new["metadata"]["uid"] = json!("u");
                subject.track(Some(live), &mut new, "n", now);
            }
        },
    );
}
