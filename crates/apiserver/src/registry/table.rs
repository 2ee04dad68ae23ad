//! Tables: what people want to see of objects.

use k3_api::{
    rules::{Description, Row, Tree},
    status::{Grouped, Status},
    time::Time,
};
use serde_json::{Value, json};

use super::{Ask, Resource, answer};
use crate::openapi::column_description;

/// A table of a list of objects.
pub(super) fn of_list(
    objects: impl IntoIterator<Item = Value>,
    metadata: &Value,
    ask: &Ask,
    resource: &Resource,
) -> Result<Value, Status> {
    let rules = resource.rules();
    let is_whole = ask.query.text("includeObject") == "Object";
    let with_row = |mut object: Value| {
        let row = rules.row(&object, ask.now);
        // There may be very many, and only their metadata are needed from here on.
        if !is_whole && let Value::Object(fields) = &mut object {
            fields.retain(|name, _| name == "metadata");
        }
        (object, row)
    };
    let mut rows: Vec<_> = objects.into_iter().map(with_row).collect();
    rules.arrange(&mut rows);
    of_rows(rows, metadata, ask, resource)
}

/// A table of one object.
pub(super) fn of_one(object: Value, ask: &Ask, resource: &Resource) -> Result<Value, Status> {
    let metadata = json!({"resourceVersion": object.at("metadata").text("resourceVersion")});
    let row = resource.rules().row(&object, ask.now);
    of_rows(vec![(object, row)], &metadata, ask, resource)
}

fn of_rows(
    rows: Vec<(Value, Row)>,
    metadata: &Value,
    ask: &Ask,
    resource: &Resource,
) -> Result<Value, Status> {
    let include = ask.query.text("includeObject");
    if !matches!(include, "" | "Metadata" | "Object" | "None") {
        let error = k3_api::field::Error::invalid(
            &k3_api::field::Path::new("includeObject"),
            include,
            "must be 'Metadata', 'Object', 'None', or empty",
        );
        return Err(Status::invalid(
            Grouped::new("meta.k8s.io", "TableOptions"),
            "",
            &[error],
        ));
    }
    let version = ask.accepted.version;
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(object, shown)| row(object, shown, include, version))
        .collect();
    Ok(json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
        "columnDefinitions": columns(resource),
        "rows": rows,
    }))
}

/// A table of one object, as watches have them. Only the first one tells the columns.
pub(super) fn event(
    object: Value,
    include: &str,
    version: &str,
    now: Time,
    with_columns: bool,
    resource: &Resource,
) -> Value {
    let metadata = json!({"resourceVersion": object.at("metadata").text("resourceVersion")});
    let shown = resource.rules().row(&object, now);
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
        "columnDefinitions": if with_columns { columns(resource) } else { Vec::new() },
        "rows": [row(object, shown, include, version)],
    })
}

fn columns(resource: &Resource) -> Vec<Value> {
    resource
        .rules()
        .columns()
        .iter()
        .map(|column| definition(column, resource))
        .collect()
}

fn definition(column: &k3_api::rules::Column, resource: &Resource) -> Value {
    let description = match &column.description {
        Description::Text(text) => text.as_ref(),
        Description::Field(field) => column_description(&resource.kind, field),
    };
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": description,
        "priority": column.priority,
    })
}

fn row(object: Value, shown: Row, include: &str, version: &str) -> Value {
    let mut row = json!({"cells": shown.cells});
    if !shown.conditions.is_empty() {
        row["conditions"] = shown.conditions.into();
    }
    row["object"] = match include {
        "Object" => object,
        "None" => Value::Null,
        _ => answer::metadata_of(&object, version),
    };
    row
}
