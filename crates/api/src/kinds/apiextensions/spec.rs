//! What a definition asks for.

use serde_json::{Value, json};

use super::{
    conversion::{self, Demands},
    expressions::Costs,
    form::Form,
    names, openapi, printed, schema,
    stored::Stored,
    version,
};
use crate::{
    field::{Error, Path, Shown},
    kinds::field_checks,
    name,
    rules::{Errors, Tree},
};

/// What is wrong with a spec.
pub(super) fn validate(spec: &Value, old: Option<&Value>, demands: Demands, errors: &mut Errors) {
    let at = Path::new("spec");
    let form = Form::of(spec);
    let stored = Stored::of(old);
    judge_group(spec.text("group"), &at.child("group"), errors);
    match spec.text("scope") {
        "" => errors.push(Error::required(&at.child("scope"), "")),
        "Cluster" | "Namespaced" => {}
        scope => errors.push(Error::not_supported(
            &at.child("scope"),
            scope,
            ["Cluster", "Namespaced"],
        )),
    }
    let versions_at = at.child("versions");
    if !form.common.schema.has("openAPIV3Schema") {
        for (index, version) in form.versions.iter().enumerate() {
            if !version.own.schema.has("openAPIV3Schema") {
                let field_path = versions_at.index(index);
                errors.push(Error::required(
                    &field_path.child("schema").child("openAPIV3Schema"),
                    "",
                ));
            }
        }
    }
    let preserves = spec.flag("preserveUnknownFields");
    if preserves && has_defaults(&form) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(Error::invalid(
            &at.child("preserveUnknownFields"),
            json!(true),
            detail,
        ));
    }
    judge_versions(&form, &stored, &versions_at, errors);
    judge_names(spec.at("names"), &at.child("names"), errors);
    let field_path = at.child("validation");
    let first = form
        .versions
        .first()
        .map_or("", |version| version.whole.text("name"));
    let costs = Costs::of(form.common.schema, &stored, first);
    openapi::validate(
        form.common.schema,
        form.has_any_status(),
        (costs, &stored),
        &field_path,
        errors,
    );
    version::subresources(form.common.subresources, &at.child("subresources"), errors);
    version::columns(form.common.columns, &at.child("additionalPrinterColumns"), errors);
    judge_selectable(&form, old, &at, errors);
    let conversion = spec.at("conversion");
    if preserves && !conversion.is_null() && conversion.text("strategy") != "None" {
        let field_path = at.child("conversion");
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(Error::invalid(
            &field_path.child("strategy"),
            conversion.text("strategy"),
            detail,
        ));
    }
    conversion::validate(conversion, demands, &at.child("conversion"), errors);
}

fn has_defaults(form: &Form<'_>) -> bool {
    form.schemas()
        .any(|whole| schema::any(whole, &mut |one| one.has("default")))
}

fn judge_group(group: &str, at: &Path<'_>, errors: &mut Errors) {
    if group.is_empty() {
        errors.push(Error::required(at, ""));
        return;
    }
    let msgs = name::dns1123_subdomain(group);
    if !msgs.is_empty() {
        errors.push(Error::invalid(at, group, msgs.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(
            at,
            group,
            "should be a domain with at least one dot",
        ));
    }
}

fn judge_versions(form: &Form<'_>, stored: &Stored<'_>, at: &Path<'_>, errors: &mut Errors) {
    let names: Vec<_> = form
        .versions
        .iter()
        .map(|version| version.whole.text("name"))
        .collect();
    for (index, version) in form.versions.iter().enumerate() {
        let field_path = at.index(index);
        names::label(names[index], names[index], "", &field_path.child("name"), errors);
        version::validate(version, form.has_status(version), stored, &field_path, errors);
    }
    let shown = || Shown::Printed(printed::versions(&form.shown_versions()));
    if field_checks::duplicate_flags(&names).contains(&true) {
        errors.push(Error::invalid(at, shown(), "must contain unique version names"));
    }
    let stored = form
        .versions
        .iter()
        .filter(|version| version.whole.flag("storage"));
    if stored.count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(at, shown(), detail));
    }
    if let Some(first) = names.first().filter(|first| !first.is_empty()) {
        // The first version is told once more, at the place where it stood when there was only one.
        let spec = Path::new("spec");
        names::label(first, first, "", &spec.child("version"), errors);
    }
}

fn judge_names(names: &Value, at: &Path<'_>, errors: &mut Errors) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if names.text(field).is_empty() {
            errors.push(Error::required(&at.child(field), ""));
        }
    }
    names::validate(names, at, errors);
}

fn judge_selectable(form: &Form<'_>, old: Option<&Value>, at: &Path<'_>, errors: &mut Errors) {
    let fields = form.common.selectable;
    if fields.as_array().is_none_or(Vec::is_empty) {
        return;
    }
    let field_path = at.child("selectableFields");
    if form.common.schema.is_null() {
        let detail = "may only be set when validations.schema is included";
        errors.push(Error::invalid(&field_path, "", detail));
        return;
    }
    let schema = form.common.schema.at("openAPIV3Schema");
    let before = old.map(|old| Form::of(old).common.selectable.clone());
    version::selectable(fields, schema, before.as_ref(), at, errors);
}
