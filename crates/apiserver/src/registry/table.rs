//! Table responses (`kubectl get`).

use k3_api::{
    encode,
    kinds::KindRef,
    status::{GroupResource, Status},
    strategy::{self, ColumnDescription, Row, Tree},
    time::Time,
};
use serde_json::{Value, json};

use super::{RequestContext, Resource, response};
use crate::{cache::CachedObject, openapi::column_description};

/// What a row includes of its object (`includeObject`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowObjectForm {
    Metadata,
    Object,
    Nothing,
}

/// Writes the rows of stored objects, one by one: there may be very many.
pub(super) struct RowWriter {
    kind: KindRef,
    include: RowObjectForm,
    version: &'static str,
    now: Time,
}

/// A table of a list of objects.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go asTable
pub(super) fn of_list(
    objects: impl IntoIterator<Item = Value>,
    metadata: &Value,
    ctx: &RequestContext,
    resource: &Resource,
) -> Result<Value, Status> {
    let rules = resource.strategy();
    let is_whole = RowObjectForm::of(ctx)? == RowObjectForm::Object;
    let with_row = |mut object: Value| {
        let row = rules.row(&object, ctx.now);
        // There may be very many, and only their metadata are needed from here on.
        if !is_whole && let Value::Object(fields) = &mut object {
            fields.retain(|name, _| name == "metadata");
        }
        (object, row)
    };
    let mut rows: Vec<_> = objects.into_iter().map(with_row).collect();
    rules.arrange(&mut rows);
    of_rows(rows, metadata, ctx, resource)
}

/// A table of one object.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go asTable
pub(super) fn of_one(object: Value, ctx: &RequestContext, resource: &Resource) -> Result<Value, Status> {
    let metadata = json!({"resourceVersion": object.at("metadata").text("resourceVersion")});
    let row = resource.strategy().row(&object, ctx.now);
    of_rows(vec![(object, row)], &metadata, ctx, resource)
}

fn of_rows(
    rows: Vec<(Value, Row)>,
    metadata: &Value,
    ctx: &RequestContext,
    resource: &Resource,
) -> Result<Value, Status> {
    let include = RowObjectForm::of(ctx)?;
    let version = ctx.accepted.version;
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

/// Whether a table has the definitions of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableColumns {
    Include,
    Omit,
}

/// A table of one object for a watch. Only the first one has the columns.
pub(super) fn event(
    object: Value,
    include: &str,
    version: &str,
    now: Time,
    column_definitions: TableColumns,
    resource: &Resource,
) -> Value {
    let metadata = json!({"resourceVersion": object.at("metadata").text("resourceVersion")});
    let shown = resource.strategy().row(&object, now);
    let include = RowObjectForm::read(include).unwrap_or(RowObjectForm::Metadata);
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
        "columnDefinitions": match column_definitions {
            TableColumns::Include => columns(resource),
            TableColumns::Omit => Vec::new(),
        },
        "rows": [row(object, shown, include, version)],
    })
}

fn columns(resource: &Resource) -> Vec<Value> {
    resource
        .strategy()
        .columns()
        .iter()
        .map(|column| definition(column, resource))
        .collect()
}

fn definition(column: &k3_api::strategy::Column, resource: &Resource) -> Value {
    let description = match &column.description {
        ColumnDescription::Text(text) => text.as_ref(),
        ColumnDescription::Field(field) => column_description(&resource.kind, field),
    };
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": description,
        "priority": column.priority,
    })
}

fn row(object: Value, shown: Row, include: RowObjectForm, version: &str) -> Value {
    let mut row = json!({"cells": shown.cells});
    if !shown.conditions.is_empty() {
        row["conditions"] = shown.conditions.into();
    }
    row["object"] = match include {
        RowObjectForm::Object => object,
        RowObjectForm::Nothing => Value::Null,
        RowObjectForm::Metadata => response::metadata_of(&object, version),
    };
    row
}

// --- RowObjectForm ---

impl RowObjectForm {
    fn of(ctx: &RequestContext) -> Result<Self, Status> {
        let include = ctx.query.text("includeObject");
        Self::read(include).ok_or_else(|| {
            let error = k3_api::field::Error::invalid(
                &k3_api::field::Path::new("includeObject"),
                include,
                "must be 'Metadata', 'Object', 'None', or empty",
            );
            Status::invalid(GroupResource::new("meta.k8s.io", "TableOptions"), "", &[error])
        })
    }

    fn read(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(RowObjectForm::Metadata),
            "Object" => Some(RowObjectForm::Object),
            "None" => Some(RowObjectForm::Nothing),
            _ => None,
        }
    }
}

// --- RowWriter ---

impl RowWriter {
    /// Creates the row writer; `None` if the rows of the kind depend on all objects, or `includeObject` is invalid.
    pub(super) fn of(ctx: &RequestContext, resource: &Resource) -> Option<Self> {
        if resource.strategy().is_arranged() {
            return None;
        }
        Some(RowWriter {
            kind: resource.kind.clone(),
            include: RowObjectForm::of(ctx).ok()?,
            version: ctx.accepted.version,
            now: ctx.now,
        })
    }

    /// The beginning of a table, up to its rows.
    pub(super) fn head(&self, metadata: &Value, resource: &Resource) -> Vec<u8> {
        let columns = Value::from(columns(resource));
        let version = self.version;
        format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/{version}\",\"metadata\":{metadata},\
             \"columnDefinitions\":{columns},\"rows\":["
        )
        .into_bytes()
    }

    /// Appends the row of an object.
    pub(super) fn write(&self, out: &mut Vec<u8>, object: &CachedObject) {
        let rules = strategy::for_kind(&self.kind);
        // The columns of custom kinds may lead anywhere.
        let tree = match self.kind.strategy {
            Some(_) => object.tree(),
            None => object.outline(rules.row_reads()),
        };
        let row = rules.row(&tree, self.now);
        out.extend_from_slice(b"{\"cells\":");
        encode::write_value(out, &row.cells.into());
        if !row.conditions.is_empty() {
            out.extend_from_slice(b",\"conditions\":");
            encode::write_value(out, &row.conditions.into());
        }
        out.extend_from_slice(b",\"object\":");
        match self.include {
            RowObjectForm::Metadata => response::write_metadata(out, object, object.revision, self.version),
            RowObjectForm::Object => object.write(out),
            RowObjectForm::Nothing => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use k3_api::kinds::builtin;
    use k3_storage::{Key, Revision};

    use super::*;

    fn stored(tree: &Value) -> CachedObject {
        let bytes = encode::encode_stored(tree.as_object().unwrap());
        CachedObject::new(
            Key::try_new("/registry/core/pods/shop/till").unwrap(),
            bytes.into(),
            Revision::new(7),
        )
    }

    #[test]
    fn streamed_rows_equal_tree_rows() {
        let kind = builtin().resource("", "v1", "pods").unwrap();
        let pod = stored(&json!({
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": "till", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "till"},
                "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:nodeName": {}}}}],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Succeeded", "podIP": "10.0.0.1", "containerStatuses": [
                {"name": "c", "restartCount": 3, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            ]},
        }));
        for include in [
            RowObjectForm::Metadata,
            RowObjectForm::Object,
            RowObjectForm::Nothing,
        ] {
            let rows = RowWriter {
                kind: kind.into(),
                include,
                version: "v1",
                now: Time::parse("2026-01-01T01:00:00Z").unwrap(),
            };
            let mut written = Vec::new();
            rows.write(&mut written, &pod);
            let tree = pod.tree();
            let shown = strategy::for_kind(kind).row(&tree, rows.now);
            assert!(!shown.conditions.is_empty(), "a finished pod has a condition");
            let written: Value = serde_json::from_slice(&written).unwrap();
            assert_eq!(written, row(tree, shown, include, "v1"));
        }
    }
}
