//! Stateful sets: pods of one template with names, order and volumes of their own.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::{
    apply::managed::ResetFields,
    field::{Error, Path, BadValue},
    kinds::{
        core::{persistent_volume_claim as claim, pod},
        count, immutable, int_or_percent, label_selector, pod_template, printed, reset,
    },
    name::{self, NameFormat},
    strategy::{self, StrategyContext, Column, ErrorList, Row, RestStrategy, Tree, TreeMut, named_row},
    selector::label::Selector,
    time::Time,
};

/// The rules of stateful sets.
pub(super) struct StatefulSet;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text("Ready", "Number of the pod with ready state"),
    Column::age(),
    pod_template::CONTAINERS,
    pod_template::IMAGES,
];

/// A stored set may have a template, claims or a service name that would be refused today, and still be changed.
#[derive(Clone, Copy)]
enum Judged<'o> {
    New,
    Changed { old: &'o Value, template: bool },
}

impl RestStrategy for StatefulSet {
    fn name_format(&self) -> NameFormat {
        NameFormat::Label
    }

    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        if spec.text("podManagementPolicy").is_empty() {
            spec.set("podManagementPolicy", "OrderedReady");
        }
        let strategy = spec.ensure_object("updateStrategy");
        if strategy.text("type").is_empty() {
            strategy.set("type", "RollingUpdate");
            strategy.ensure_object("rollingUpdate");
        }
        if strategy.text("type") == "RollingUpdate" && strategy.has("rollingUpdate") {
            let rolling = strategy.ensure_object("rollingUpdate");
            rolling.set_default("partition", 0);
            rolling.set_default("maxUnavailable", 1);
        }
        let retention = spec.ensure_object("persistentVolumeClaimRetentionPolicy");
        for name in ["whenDeleted", "whenScaled"] {
            if retention.text(name).is_empty() {
                retention.set(name, "Retain");
            }
        }
        spec.set_default("replicas", 1);
        spec.set_default("revisionHistoryLimit", 10);
        pod::default_template(spec.ensure_object("template"));
        for claim in spec.items_mut("volumeClaimTemplates") {
            claim.set("kind", "PersistentVolumeClaim");
            claim.set("apiVersion", "v1");
            claim::default_claim(claim);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        strategy::reset_status(object, at.kind);
        pod_template::drop_disabled(object, &Value::Null);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        strategy::keep_status(new, old, at.kind);
        pod_template::drop_disabled(new, old);
    }

    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate(object.at("spec"), Judged::New, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let (spec, before) = (new.at("spec"), old.at("spec"));
        let mut known = ErrorList::new();
        let judged = |template: bool| Judged::Changed {
            old: before,
            template,
        };
        validate(before, judged(true), &mut known);
        validate(spec, judged(known.is_empty()), errors);
        let at = Path::new("spec");
        immutable::selector(spec, before, &at, errors);
        if spec.at("volumeClaimTemplates") != before.at("volumeClaimTemplates") {
            let claims = spec.items("volumeClaimTemplates");
            let shown = BadValue::Json(Value::Array(claims.to_vec()));
            let place = at.child("volumeClaimTemplates");
            errors.push(Error::invalid(&place, shown, immutable::IMMUTABLE));
        }
        for name in ["serviceName", "podManagementPolicy"] {
            if spec.text(name) != before.text(name) {
                let shown = spec.text(name);
                errors.push(Error::invalid(&at.child(name), shown, immutable::IMMUTABLE));
            }
        }
    }

    fn validate_status_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let (status, at) = (new.at("status"), Path::new("status"));
        let counts = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        count::nonnegative(status, &counts, &at, errors);
        let all = "cannot be greater than status.replicas";
        count::at_most(status, &counts[1..5], "replicas", all, &at, errors);
        let ready = "cannot be greater than status.readyReplicas";
        count::at_most(
            status,
            &["availableReplicas"],
            "readyReplicas",
            ready,
            &at,
            errors,
        );
        count::collisions(status, old.at("status"), &at, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = pod_template::warnings(new, old);
        let (spec, at) = (new.at("spec"), Path::new("spec"));
        let claims = at.child("volumeClaimTemplates");
        for (index, claim) in spec.items("volumeClaimTemplates").iter().enumerate() {
            let place = claims.index(index);
            // Of changes it is told where it stands, nearly.
            let changed_at = place.child("Spec");
            let place = if old.is_none() { &place } else { &changed_at };
            claim::spec_warnings(claim.at("spec"), place, &mut warnings);
        }
        if spec.int("revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            let text = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
                recommended";
            warnings.push(text.to_owned());
        }
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        reset::spec(subresource)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let (spec, status) = (object.at("spec"), object.at("status"));
        let count = |tree: &Value, name: &str| tree.int(name).unwrap_or_default();
        let ready = format!("{}/{}", count(status, "readyReplicas"), count(spec, "replicas"));
        let mut row = named_row(object, now, [json!(ready)]);
        row.cells.extend(pod_template::cells(spec.at("template")));
        row
    }
}

fn validate(spec: &Value, judged: Judged<'_>, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let place = at.child("podManagementPolicy");
    match spec.text("podManagementPolicy") {
        "" => errors.push(Error::required(&place, "")),
        "OrderedReady" | "Parallel" => {}
        other => errors.push(Error::invalid(
            &place,
            other,
            "must be 'OrderedReady' or 'Parallel'",
        )),
    }
    strategy(spec.at("updateStrategy"), &at.child("updateStrategy"), errors);
    let (retention, place) = (
        spec.at("persistentVolumeClaimRetentionPolicy"),
        at.child("persistentVolumeClaimRetentionPolicy"),
    );
    for name in ["whenDeleted", "whenScaled"] {
        let policy = retention.text(name);
        if !retention.is_null() && !matches!(policy, "Retain" | "Delete") {
            errors.push(Error::not_supported(
                &place.child(name),
                policy,
                ["Retain", "Delete"],
            ));
        }
    }
    let new = matches!(judged, Judged::New);
    if new {
        let place = at.child("volumeClaimTemplates");
        for (index, claim) in spec.items("volumeClaimTemplates").iter().enumerate() {
            let place = place.index(index);
            let lenient = claim::Leniency::default();
            claim::validate_claim_spec(claim.at("spec"), lenient, &place.child("spec"), errors);
        }
    }
    count::nonnegative(spec, &["replicas", "minReadySeconds"], &at, errors);
    if let Some(start) = spec.at("ordinals").int("start").filter(|start| *start < 0) {
        errors.push(Error::invalid(
            &at.child("ordinals.start"),
            start,
            count::NOT_NEGATIVE,
        ));
    }
    let service = spec.text("serviceName");
    if new && !service.is_empty() {
        let place = at.child("serviceName");
        let faults = name::validate_dns1123_label(service).into_iter();
        errors.extend(faults.map(|fault| Error::invalid(&place, service, fault)));
    }
    template(spec, judged, &at, errors);
}

fn strategy(strategy: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let rolling = strategy.at("rollingUpdate");
    let place = at.child("rollingUpdate");
    match strategy.text("type") {
        "" => errors.push(Error::required(at, "")),
        "OnDelete" if rolling.is_null() => {}
        "OnDelete" => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(Error::invalid(
                &place,
                printed::shown("apps", "RollingUpdateStatefulSetStrategy", rolling),
                detail,
            ));
        }
        "RollingUpdate" => {
            count::nonnegative(rolling, &["partition"], &place, errors);
            let (unavailable, place) = (rolling.at("maxUnavailable"), place.child("maxUnavailable"));
            if !unavailable.is_null() {
                int_or_percent::positive(unavailable, &place, errors);
                if int_or_percent::number(unavailable) == 0 {
                    errors.push(Error::invalid(&place, unavailable, "cannot be 0"));
                }
                int_or_percent::within_all(unavailable, &place, errors);
            }
        }
        _ => errors.push(Error::invalid(
            at,
            printed::shown("apps", "StatefulSetUpdateStrategy", strategy),
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
}

fn template(spec: &Value, judged: Judged<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    pod_template::required_selector(spec, "empty selector is invalid for statefulset", at, errors);
    let (template, place) = (spec.at("template"), at.child("template"));
    if let Ok(selector) = Selector::from_object(spec.get("selector")) {
        if !selector.is_everything() {
            pod_template::found(&selector, template, &place, errors);
        }
        let (old, asked) = match judged {
            Judged::New => (None, true),
            Judged::Changed { old, template } => (Some(old), template),
        };
        if asked {
            let (options, completed) = (pod_template::options(old), completed(spec));
            let template = completed.as_ref().unwrap_or(template);
            pod::validate_template_with(template, &options, &place, errors);
        }
        let metadata = template.at("metadata");
        errors.extend(name::validate_labels(&place.child("labels"), metadata.entries("labels")));
        errors.extend(name::validate_annotations(
            &place.child("annotations"),
            metadata.entries("annotations"),
        ));
    } else {
        let shown = label_selector::shown(spec.at("selector"));
        errors.push(Error::invalid(&at.child("selector"), shown, ""));
    }
    pod_template::restarted_for_ever(template, "StatefulSet", &place, errors);
}

/// The template as pods will have it, as far as that matters, if it is not as it stands: the set gives each pod its
/// host name, its subdomain, and the volumes of its claims.
fn completed(spec: &Value) -> Option<Value> {
    let (claims, pod) = (spec.items("volumeClaimTemplates"), spec.at("template").at("spec"));
    if claims.is_empty() && !pod.has("hostname") && !pod.has("subdomain") {
        return None;
    }
    let mut template = spec.at("template").clone();
    let pod = template.ensure_object("spec");
    pod.remove("hostname");
    pod.remove("subdomain");
    if !claims.is_empty() {
        let name = |claim: &Value| claim.at("metadata").text("name").to_owned();
        let mut volumes: Vec<Value> = Vec::new();
        let mut names: HashSet<String> = HashSet::new();
        for name in claims.iter().map(name) {
            if names.insert(name.clone()) {
                volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
            }
        }
        let others = pod.items("volumes").iter();
        let others: Vec<_> = others
            .filter(|volume| !names.contains(volume.text("name")))
            .cloned()
            .collect();
        volumes.extend(others);
        pod.set("volumes", volumes);
    }
    Some(template)
}
