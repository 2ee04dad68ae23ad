//! Pod templates: inside workloads, and as a kind of their own.

use serde_json::{Value, json};

use super::{
    annotations, default_template, disabled, equality::same, options::Options, profile, report::Report, spec,
    template_warnings,
};
use crate::{
    field::Path,
    kinds::pod_template,
    name,
    rules::{Circumstances, Column, Errors, Row, Rules, Tree, TreeMut},
    time::Time,
};

pub(crate) struct PodTemplate;

/// What is wrong with a new pod template.
pub(crate) fn validate_template(template: &Value, at: &Path<'_>, errors: &mut Errors) {
    validate_template_with(template, &Options::default(), at, errors);
}

/// What is wrong with a pod template; `options` says which rules are relaxed for an update.
pub(crate) fn validate_template_with(
    template: &Value,
    options: &Options,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let metadata = template.at("metadata");
    let pod = template.at("spec");
    errors.extend(name::labels(&at.child("labels"), metadata.entries("labels")));
    let annotations_at = at.child("annotations");
    errors.extend(name::annotations(
        &annotations_at,
        metadata.entries("annotations"),
    ));
    annotations::validate(metadata, pod, options, &annotations_at, errors);
    let spec_at = at.child("spec");
    spec::validate(pod, &Value::Null, &spec_at, options, errors);
    profile::validate_agreement(metadata, pod, &spec_at, errors);
    if !pod.items("ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&spec_at.child("ephemeralContainers"), detail);
    }
}

// --- PodTemplate ---

// upstream: pkg/registry/core/podtemplate/strategy.go podTemplateStrategy
impl Rules for PodTemplate {
    fn default(&self, object: &mut Value) {
        default_template(object.make("template"));
    }

    // upstream: pkg/registry/core/podtemplate/strategy.go PrepareForCreate
    fn prepare_create(&self, object: &mut Value, _at: &Circumstances<'_>) {
        disabled::drop_from_template(object.make("template"), &Value::Null);
    }

    // upstream: pkg/registry/core/podtemplate/strategy.go PrepareForUpdate
    fn prepare_update(&self, new: &mut Value, old: &Value, _at: &Circumstances<'_>) {
        disabled::drop_from_template(new.make("template"), old.at("template"));
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePodTemplate
    fn validate(&self, object: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        validate_template(object.at("template"), &Path::new("template"), errors);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePodTemplateUpdate
    fn validate_update(&self, new: &Value, old: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        let options = Options::template_update(old.at("template"));
        validate_template_with(new.at("template"), &options, &Path::new("template"), errors);
    }

    // upstream: pkg/registry/core/podtemplate/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let unchanged =
            |old: &Value| new.at("metadata").at("generation") == old.at("metadata").at("generation");
        if old.is_some_and(unchanged) {
            return Vec::new();
        }
        let before = old.map(|old| old.at("template"));
        template_warnings(new.at("template"), &Path::new("template"), before)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn raises_generation(&self, new: &Value, old: &Value) -> bool {
        !same(new.at("template"), old.at("template"))
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
    fn a_row_tells_what_a_template_runs() {
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
    fn places_of_labels_leave_the_metadata_out() {
        let mut template =
            json!({"metadata": {"labels": {"a b": "c"}}, "spec": {"ephemeralContainers": [{}]}});
        default_template(&mut template);
        let mut errors = Errors::new();
        validate_template(&template, &Path::new("template"), &mut errors);
        let places: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert!(places.contains(&"template.labels") && places.contains(&"template.spec.containers"));
        assert_eq!(places.last(), Some(&"template.spec.ephemeralContainers"));
    }
}
