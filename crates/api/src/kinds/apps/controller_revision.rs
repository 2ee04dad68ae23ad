//! ControllerRevision: an immutable snapshot of the state of a DaemonSet or StatefulSet, for rollback.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::{counts, immutable},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, named_row},
    time::Time,
};

pub(super) struct ControllerRevision;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text("Controller", "Controller of the object"),
    Column::field("Revision", "revision"),
    Column::age(),
];

// upstream: pkg/registry/apps/controllerrevision/strategy.go strategy
impl RestStrategy for ControllerRevision {
    // upstream: pkg/apis/apps/validation/validation.go ValidateControllerRevisionCreate
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        counts::validate_nonnegative_fields(object, &["revision"], &Path::NIL, errors);
        let field_path = Path::new("data");
        match object.at("data") {
            Value::Object(_) => {}
            Value::Null => errors.push(Error::required(&field_path, "data is mandatory")),
            _ => errors.push(Error::required(&field_path, "data must be a valid JSON object")),
        }
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateControllerRevisionUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        counts::validate_nonnegative_fields(new, &["revision"], &Path::NIL, errors);
        immutable::validate_immutable_fields(new, old, &["data"], &Path::NIL, errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printControllerRevision
    fn row(&self, object: &Value, now: Time) -> Row {
        let owners = object.at("metadata").items("ownerReferences");
        let controller = owners.iter().find(|owner| owner.flag("controller"));
        let name = controller.map_or_else(|| "<none>".to_owned(), controller_name);
        named_row(object, now, [json!(name), json!(object.int_or_zero("revision"))])
    }
}

/// `statefulset.apps/web`
fn controller_name(owner: &Value) -> String {
    let kind = owner.text("kind").to_lowercase();
    let name = owner.text("name");
    match owner.text("apiVersion").split_once('/') {
        _ if kind.is_empty() => name.to_owned(),
        Some((group, _)) if !group.is_empty() => format!("{kind}.{group}/{name}"),
        _ => format!("{kind}/{name}"),
    }
}
