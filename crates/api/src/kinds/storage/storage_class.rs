//! StorageClass: the provisioner of volumes and its settings.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use serde_json::{Value, json};

use super::parameters;
use crate::{
    field::{Error, Path},
    kinds::{core::node_selector, field_checks},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

/// Immutable fields, in the order of their errors.
const IMMUTABLE_FIELDS: [&str; 4] = ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"];

/// Annotations that mark the default class.
// upstream: pkg/apis/storage/util/helpers.go IsDefaultAnnotation
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

pub(super) struct StorageClass;

// upstream: pkg/registry/storage/storageclass/strategy.go storageClassStrategy
impl RestStrategy for StorageClass {
    // upstream: pkg/apis/storage/v1/defaults.go SetDefaults_StorageClass
    fn set_defaults(&self, object: &mut Value) {
        object.set_default("reclaimPolicy", "Delete");
        object.set_default("volumeBindingMode", "Immediate");
    }

    // upstream: pkg/apis/storage/validation/validation.go ValidateStorageClass
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_storage_class(object, errors);
        field_checks::require_fields(object, &["provisioner"], &Path::NIL, errors);
    }

    // upstream: pkg/apis/storage/validation/validation.go ValidateStorageClassUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_storage_class(new, errors);
        if new.at("provisioner") != old.at("provisioner") {
            field_checks::require_fields(new, &["provisioner"], &Path::NIL, errors);
        }
        for name in IMMUTABLE_FIELDS {
            field_checks::validate_immutable_hiding_value(
                new.at(name),
                old.at(name),
                &Path::new(name),
                errors,
            );
        }
    }

    // upstream: pkg/registry/storage/storageclass/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (i, term) in new.items("allowedTopologies").iter().enumerate() {
            for (j, requirement) in term.items("matchLabelExpressions").iter().enumerate() {
                if let Some(detail) = node_selector::deprecated_label_message(requirement.text("key")) {
                    let field_path = format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key");
                    warnings.push(format!("{field_path}: {detail}"));
                }
            }
        }
        warnings
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::field("Provisioner", "provisioner"),
            Column::field("ReclaimPolicy", "reclaimPolicy"),
            Column::field("VolumeBindingMode", "volumeBindingMode"),
            Column::field("AllowVolumeExpansion", "allowVolumeExpansion"),
            Column::age(),
        ];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printStorageClass
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(
            object,
            now,
            [
                json!(object.text("provisioner")),
                json!(object.at("reclaimPolicy").as_str().unwrap_or("Delete")),
                json!(object.at("volumeBindingMode").as_str().unwrap_or("Immediate")),
                json!(object.flag("allowVolumeExpansion")),
            ],
        )
    }

    fn is_arranged(&self) -> bool {
        true
    }

    /// Marks the default class in the list: the newest of those that are annotated.
    // upstream: pkg/printers/internalversion/printers.go getEffectiveDefaultStorageClass, printStorageClassList
    fn arrange(&self, rows: &mut [(Value, Row)]) {
        let created = |class: &Value| Time::parse(class.at("metadata").text("creationTimestamp")).ok();
        let name = |class: &Value| class.at("metadata").text("name").to_owned();
        let default = rows
            .iter_mut()
            .filter(|(class, _)| is_default_class(class))
            .max_by_key(|(class, _)| (created(class), Reverse(name(class))));
        if let Some((class, row)) = default {
            row.cells[0] = json!(format!("{} (default)", name(class)));
        }
    }
}

// upstream: pkg/apis/storage/util/helpers.go IsDefaultAnnotation
fn is_default_class(class: &Value) -> bool {
    let annotations = class.at("metadata").at("annotations");
    DEFAULT_CLASS_ANNOTATIONS
        .iter()
        .any(|name| annotations.text(name) == "true")
}

// upstream: pkg/apis/storage/validation/validation.go ValidateStorageClass
fn validate_storage_class(object: &Value, errors: &mut ErrorList) {
    let provisioner = object.text("provisioner");
    if !provisioner.is_empty() {
        let field_path = Path::new("provisioner");
        field_checks::validate_qualified_name(&field_checks::to_lower(provisioner), &field_path, errors);
    }
    parameters::validate_parameters(object, errors);
    let policy = object.text("reclaimPolicy");
    if !policy.is_empty() {
        field_checks::validate_supported(policy, &["Delete", "Retain"], &Path::new("reclaimPolicy"), errors);
    }
    field_checks::validate_supported(
        object.text("volumeBindingMode"),
        &["Immediate", "WaitForFirstConsumer"],
        &Path::new("volumeBindingMode"),
        errors,
    );
    validate_allowed_topologies(object.items("allowedTopologies"), errors);
}

/// Rejects duplicate terms. An empty term counts as a duplicate of any other.
// upstream: pkg/apis/storage/validation/validation.go validateAllowedTopologies
fn validate_allowed_topologies(terms: &[Value], errors: &mut ErrorList) {
    let at = Path::new("allowedTopologies");
    let mut before: HashMap<BTreeMap<&str, BTreeSet<&str>>, usize> = HashMap::new();
    for (index, term) in terms.iter().enumerate() {
        let field_path = at.index(index);
        let allowed = validate_topology_term(term, &field_path.child("matchLabelExpressions"), errors);
        let empty = if allowed.is_empty() { terms.len() } else { 0 };
        let same = before.entry(allowed).or_default();
        for _ in 0..empty + *same {
            if errors.is_full() {
                return;
            }
            errors.push(Error::duplicate(&field_path.child("matchLabelExpressions"), ""));
        }
        *same += 1;
    }
}

fn validate_topology_term<'v>(
    term: &'v Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) -> BTreeMap<&'v str, BTreeSet<&'v str>> {
    let mut allowed = BTreeMap::new();
    for (index, requirement) in term.items("matchLabelExpressions").iter().enumerate() {
        let field_path = at.index(index);
        let values = field_path.child("values");
        if requirement.items("values").is_empty() {
            errors.push(Error::required(&values, ""));
        }
        let mut set = BTreeSet::new();
        for (index, value) in requirement.texts("values").enumerate() {
            if !set.insert(value) {
                errors.push(Error::duplicate(&values.index(index), value));
            }
        }
        let key = requirement.text("key");
        field_checks::validate_qualified_name(key, &field_path.child("key"), errors);
        if allowed.insert(key, set).is_some() {
            errors.push(Error::duplicate(&field_path.child("key"), key));
        }
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejects_duplicate_topologies() {
        let zone = json!({"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}, {"key": "zone", "values": ["b"]}]});
        let mut errors = ErrorList::new();
        validate_allowed_topologies(&[zone.clone(), zone], &mut errors);
        assert_eq!(
            messages(&errors),
            [
                "allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"a\"",
                "allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: \"zone\"",
                "allowedTopologies[1].matchLabelExpressions[0].values[1]: Duplicate value: \"a\"",
                "allowedTopologies[1].matchLabelExpressions[1].key: Duplicate value: \"zone\"",
                "allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\"",
            ]
        );
    }

    #[test]
    fn list_marks_the_newest_default() {
        let class = |name: &str, day: &str, default: &str| {
            let class = json!({"metadata": {
                "name": name, "creationTimestamp": format!("2026-01-{day}T00:00:00Z"), "annotations": {DEFAULT_CLASS_ANNOTATIONS[0]: default},
            }});
            let row = StorageClass.row(&class, Time::from_unix(0, 0));
            (class, row)
        };
        let mut rows = [
            class("a", "01", "true"),
            class("c", "02", "true"),
            class("b", "02", "true"),
            class("d", "03", "false"),
        ];
        StorageClass.arrange(&mut rows);
        let names = rows.map(|(_, row)| row.cells[0].clone());
        assert_eq!(names, ["a", "c", "b (default)", "d"].map(Value::from));
    }

    #[test]
    fn row_shows_defaults() {
        let class = json!({"metadata": {"name": "c", "creationTimestamp": "2026-01-01T00:00:00Z"}, "provisioner": "p"});
        let now = Time::parse("2026-01-01T00:00:30Z").unwrap();
        assert_eq!(
            Value::Array(StorageClass.row(&class, now).cells),
            json!(["c", "p", "Delete", "Immediate", false, "30s"])
        );
    }
}
