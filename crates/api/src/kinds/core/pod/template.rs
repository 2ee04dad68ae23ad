//! PodTemplate: in workloads, and as a kind.

use serde_json::{Value, json};

use super::{
    annotations, disabled, equality::semantic_equal, error_list::ErrorListExt, get_warnings_for_pod_template,
    options::PodValidationOptions, profile, set_defaults_pod_template, spec,
};
use crate::{
    field::Path,
    kinds::pod_template,
    name,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut},
    time::Time,
};

pub(crate) struct PodTemplate;

// upstream: pkg/apis/core/validation/validation.go ValidatePodTemplateSpec
pub(crate) fn validate_new_pod_template_spec(template: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_pod_template_spec(template, &PodValidationOptions::default(), at, errors);
}

/// Validates a pod template; `options` are the relaxed rules of an update.
// upstream: pkg/apis/core/validation/validation.go ValidatePodTemplateSpec
pub(crate) fn validate_pod_template_spec(
    template: &Value,
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let metadata = template.at("metadata");
    let pod = template.at("spec");
    errors.extend(name::validate_labels(
        &at.child("labels"),
        metadata.entries("labels"),
    ));
    let annotations_at = at.child("annotations");
    errors.extend(name::validate_annotations(
        &annotations_at,
        metadata.entries("annotations"),
    ));
    annotations::validate_pod_annotations(metadata, pod, options, &annotations_at, errors);
    let spec_at = at.child("spec");
    spec::validate(pod, &Value::Null, &spec_at, options, errors);
    profile::validate_annotations_match_fields(metadata, pod, &spec_at, errors);
    if !pod.items("ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&spec_at.child("ephemeralContainers"), detail);
    }
}

// --- PodTemplate ---

// upstream: pkg/registry/core/podtemplate/strategy.go podTemplateStrategy
impl RestStrategy for PodTemplate {
    fn set_defaults(&self, object: &mut Value) {
        set_defaults_pod_template(object.ensure_object("template"));
    }

    // upstream: pkg/registry/core/podtemplate/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, _at: &StrategyContext<'_>) {
        disabled::drop_disabled_template_fields(object.ensure_object("template"), &Value::Null);
    }

    // upstream: pkg/registry/core/podtemplate/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        disabled::drop_disabled_template_fields(new.ensure_object("template"), old.at("template"));
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePodTemplate
    fn validate(&self, object: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_new_pod_template_spec(object.at("template"), &Path::new("template"), errors);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePodTemplateUpdate
    fn validate_update(&self, new: &Value, old: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        let options = PodValidationOptions::for_template_update(old.at("template"));
        validate_pod_template_spec(new.at("template"), &options, &Path::new("template"), errors);
    }

    // upstream: pkg/registry/core/podtemplate/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let unchanged =
            |old: &Value| new.at("metadata").at("generation") == old.at("metadata").at("generation");
        if old.is_some_and(unchanged) {
            return Vec::new();
        }
        let before = old.map(|old| old.at("template"));
        get_warnings_for_pod_template(new.at("template"), &Path::new("template"), before)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn raises_generation(&self, new: &Value, old: &Value) -> bool {
        !semantic_equal(new.at("template"), old.at("template"))
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::text("Containers", "Names of each container in the template."),
            Column::text("Images", "Images referenced by each container in the template."),
            Column::text("Pod Labels", "The labels for the pod template."),
        ];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printPodTemplate
    fn row(&self, object: &Value, _now: Time) -> Row {
        let template = object.at("template");
        let [names, images] = pod_template::layout_container_cells(template);
        let labels: Vec<_> = template
            .at("metadata")
            .entries("labels")
            .iter()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        let labels = if labels.is_empty() {
            "<none>".to_owned()
        } else {
            labels.join(",")
        };
        let name = object.at("metadata").text("name");
        Row::new(vec![json!(name), names, images, json!(labels)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_shows_containers_and_images() {
        let object = json!({
            "metadata": {"name": "t"},
            "template": {
                "metadata": {"labels": {"a": "1", "b": "2"}},
                "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]},
            },
        });
        let now = Time::parse("2026-01-02T00:00:00Z").expect("a time");
        assert_eq!(
            PodTemplate.row(&object, now).cells,
            [json!("t"), json!("c,d"), json!("i,j"), json!("a=1,b=2")]
        );
    }

    #[test]
    fn field_paths_of_labels_omit_metadata() {
        let mut template =
            json!({"metadata": {"labels": {"a b": "c"}}, "spec": {"ephemeralContainers": [{}]}});
        set_defaults_pod_template(&mut template);
        let mut errors = ErrorList::new();
        validate_new_pod_template_spec(&template, &Path::new("template"), &mut errors);
        let places: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert!(places.contains(&"template.labels") && places.contains(&"template.spec.containers"));
        assert_eq!(places.last(), Some(&"template.spec.ephemeralContainers"));
    }
}
