//! Table columns of custom resources (`additionalPrinterColumns`).

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go ConvertToTable, cellForJSONValue

use std::borrow::Cow;

use k3_duration::human_duration;
use k3_jsonpath::JsonPath;
use serde_json::{Value, json};

use crate::{
    go,
    strategy::{Column, ColumnDescription, Row, Tree},
    time::Time,
};

/// What a table shows of each object.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) heads: Vec<Column>,
    paths: Vec<JsonPath>,
}

// --- Columns ---

impl Columns {
    /// The columns of a version. What follows a column that cannot be read is left out.
    pub(super) fn read(version: &Value) -> Columns {
        let mut columns = Columns {
            heads: vec![Column::name()],
            paths: Vec::new(),
        };
        let given = version.items("additionalPrinterColumns");
        if given.is_empty() {
            columns.heads.push(Column::new(
                "Age",
                "date",
                ColumnDescription::Field("metadata.creationTimestamp"),
            ));
            columns
                .paths
                .extend(JsonPath::parse(".metadata.creationTimestamp"));
        }
        for column in given {
            let text = |name: &str| Cow::Owned(column.text(name).to_owned());
            let path = column.text("jsonPath");
            let Ok(parsed) = JsonPath::parse(path) else {
                break;
            };
            let description = match column.text("description") {
                "" => format!("Custom resource definition column (in JSONPath format): {path}"),
                given => given.to_owned(),
            };
            columns.heads.push(Column {
                name: text("name"),
                kind: text("type"),
                format: text("format"),
                priority: i32::try_from(column.int_or_zero("priority")).unwrap_or_default(),
                description: ColumnDescription::Text(Cow::Owned(description)),
            });
            columns.paths.push(parsed);
        }
        columns
    }

    pub(super) fn row(&self, object: &Value, now: Time) -> Row {
        let mut cells = vec![json!(object.at("metadata").text("name"))];
        let heads = self.heads.iter().skip(1);
        cells.extend(heads.zip(&self.paths).map(|(head, path)| {
            let found = path.find(object).unwrap_or_default();
            found
                .first()
                .map_or(Value::Null, |value| cell(&head.kind, value, now))
        }));
        Row::new(cells)
    }
}

fn cell(kind: &str, value: &Value, now: Time) -> Value {
    match (kind, value) {
        ("string", Value::Null) => json!("<no value>"),
        ("string", Value::Array(_) | Value::Object(_)) => Value::String(go::json(value)),
        ("string", value) => Value::String(go::plain(value)),
        #[expect(clippy::cast_possible_truncation, reason = "a fraction is cut off")]
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(number) => json!(number),
            None => json!(number.as_f64().unwrap_or_default() as i64),
        },
        ("number", Value::Number(number)) => json!(number.as_f64()),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => Value::String(age(text, now)),
        _ => Value::Null,
    }
}

/// How long ago it was; `<invalid>` if it is no time.
fn age(text: &str, now: Time) -> String {
    if text.is_empty() || text == "null" {
        return "<unknown>".to_owned();
    }
    match Time::parse(text) {
        Ok(then) => human_duration(now.since(then)),
        Err(_) => "<invalid>".to_owned(),
    }
}
