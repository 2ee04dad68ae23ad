//! Event of the core group and of `events.k8s.io`. Both are one stored kind; [`to_core`] and [`from_core`] convert.

mod conversion;
mod table;
mod validation;

use std::borrow::Cow;

use serde_json::Value;

pub(in crate::kinds) use self::conversion::EventGroup;
use self::conversion::{field, text};
pub use self::conversion::{from_core, to_core};
use crate::{
    field::Path,
    kinds::Scope,
    name::NameFormat,
    strategy::{Column, ErrorList, RestStrategy, Row, SelectableField, StrategyContext, Tree, object_meta},
    time::Time,
};

pub(in crate::kinds) struct Event(pub(in crate::kinds) EventGroup);

/// A field of the object that the event is about.
macro_rules! about {
    ($root:literal, $field:literal) => {
        SelectableField::rule(concat!($root, ".", $field), |event| {
            Cow::Borrowed(field(event, "involvedObject").text($field))
        })
    };
}

/// Any other field, by its selector name and its name in the core group.
macro_rules! other {
    ($field:literal, $name:literal) => {
        SelectableField::rule($field, |event| Cow::Borrowed(text(event, $name)))
    };
}

const CORE_SELECTABLE: &[SelectableField] = &[
    about!("involvedObject", "kind"),
    about!("involvedObject", "namespace"),
    about!("involvedObject", "name"),
    about!("involvedObject", "uid"),
    about!("involvedObject", "apiVersion"),
    about!("involvedObject", "resourceVersion"),
    about!("involvedObject", "fieldPath"),
    other!("reason", "reason"),
    other!("reportingComponent", "reportingComponent"),
    SelectableField::rule("source", |event| Cow::Borrowed(component(event))),
    other!("type", "type"),
];

const EVENTS_SELECTABLE: &[SelectableField] = &[
    about!("regarding", "kind"),
    about!("regarding", "namespace"),
    about!("regarding", "name"),
    about!("regarding", "uid"),
    about!("regarding", "apiVersion"),
    about!("regarding", "resourceVersion"),
    about!("regarding", "fieldPath"),
    other!("reason", "reason"),
    other!("reportingController", "reportingComponent"),
    other!("type", "type"),
];

/// The reporting component.
fn component(event: &Value) -> &str {
    match field(event, "source").text("component") {
        "" => text(event, "reportingComponent"),
        component => component,
    }
}

// upstream: pkg/registry/core/event/strategy.go eventStrategy
impl RestStrategy for Event {
    /// Events of the core group may have any name; the metadata of the others is validated last.
    fn name_format(&self) -> NameFormat {
        NameFormat::PathSegment
    }

    fn metadata_first(&self) -> bool {
        false
    }

    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validation::validate_legacy_event(errors, object, self.0);
        if self.0 == EventGroup::Events {
            let field_path = Path::new("metadata");
            errors.extend(object_meta(
                object.at("metadata"),
                &field_path,
                NameFormat::Subdomain,
                Scope::Namespaced,
            ));
            validation::validate_event_create(errors, object);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validation::validate_legacy_event(errors, new, self.0);
        if self.0 == EventGroup::Events {
            validation::validate_event_update(errors, new, old);
        }
    }

    // upstream: pkg/registry/core/event/strategy.go AllowCreateOnUpdate
    fn allow_create_on_update(&self) -> bool {
        true
    }

    // upstream: pkg/registry/core/event/strategy.go ToSelectableFields
    fn selectable_fields(&self) -> &'static [SelectableField] {
        match self.0 {
            EventGroup::Core => CORE_SELECTABLE,
            EventGroup::Events => EVENTS_SELECTABLE,
        }
    }

    fn columns(&self) -> &'static [Column] {
        match self.0 {
            EventGroup::Core => table::CORE_COLUMNS,
            EventGroup::Events => table::EVENTS_COLUMNS,
        }
    }

    // upstream: pkg/printers/internalversion/printers.go printEvent
    fn row(&self, object: &Value, now: Time) -> Row {
        table::print_event(object, now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        kinds::builtin,
        strategy::{self, User},
    };

    fn create_messages(group: &str, event: &Value) -> Vec<String> {
        let kind = builtin()
            .kind(group, "v1", "Event")
            .expect("the kind is built in");
        let at = StrategyContext {
            kind,
            now: Time::from_unix(0, 0),
            user: &User::default(),
        };
        let status = strategy::create(&mut event.clone(), &at).expect_err("it is invalid");
        let causes = status.details.expect("it has details").causes;
        causes.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn validates_metadata_last() {
        let metadata = json!({"name": "A", "namespace": "default", "labels": {"-": ""}});
        let event = json!({"metadata": metadata, "involvedObject": {"namespace": "other"}});
        assert_eq!(create_messages("", &event), ["involvedObject.namespace"]);
        assert_eq!(
            create_messages("", &json!({"metadata": metadata})),
            ["metadata.labels"]
        );
        let event = json!({"metadata": metadata, "regarding": {"namespace": "other"}});
        let first: Vec<_> = create_messages("events.k8s.io", &event)
            .into_iter()
            .take(3)
            .collect();
        assert_eq!(
            first,
            ["involvedObject.namespace", "metadata.name", "metadata.labels"]
        );
    }
}
