//! The columns of tables.

use super::facts;
use k3_api::{
    kinds::{Kind, builtin},
    schema::Type,
    strategy::{self, Column, ColumnDescription},
};
use serde_json::{Value, json};

#[test]
fn columns_match_the_facts() {
    let Some(tables) = facts("table-columns.json") else {
        return;
    };
    for kind in kinds() {
        let key = format!("{}/{}", kind.api_version(), kind.kind);
        let ours: Vec<_> = strategy::for_kind(kind).columns().iter().map(messages).collect();
        assert_eq!(tables[&key], Value::Array(ours), "{key}");
    }
}

/// A kind with two versions has one table; it may speak of fields of either.
#[test]
fn columns_refer_to_existing_fields() {
    for kind in kinds() {
        let versions = || kinds().filter(|other| (&other.group, &other.kind) == (&kind.group, &kind.kind));
        for column in strategy::for_kind(kind).columns() {
            if let ColumnDescription::Field(field) = column.description {
                assert!(versions().any(|kind| has(kind, field)), "{}: {field}", kind.kind);
            }
        }
    }
}

fn kinds() -> impl Iterator<Item = &'static Kind> {
    let kinds = builtin().all().iter();
    kinds.filter(|kind| kind.allows("list"))
}

fn messages(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "priority": column.priority,
    })
}

fn has(kind: &Kind, way: &str) -> bool {
    let mut ty = kind.ty.table();
    for name in way.split('.') {
        let Some(field) = ty.and_then(|ty| ty.get().named(name)) else {
            return false;
        };
        ty = match &field.ty {
            Type::Struct(of) => Some(*of),
            _ => None,
        };
    }
    true
}
