//! Tables that the server renders.

use std::{cmp::Ordering, collections::BTreeMap};

use k3_jsonpath::JsonPath;
use serde::Deserialize;
use serde_json::Value;

use crate::{age, error::ClientError, table::Table};

/// Prefers tables; servers that cannot render a resource as a table return the objects.
pub(crate) const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Which columns are shown, and how.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct RowOptions {
    pub(crate) is_wide: bool,
    /// Whether changes follow, whose revisions are in the metadata.
    pub(crate) is_watched: bool,
    pub(crate) has_namespace: bool,
    /// The prefix of names: `pod` in `pod/web`.
    pub(crate) noun: Option<String>,
    /// Labels with a column each.
    pub(crate) labels: Vec<String>,
    /// Whether all labels are shown in the last column.
    pub(crate) has_labels: bool,
    pub(crate) sort: Option<JsonPath>,
}

/// A table with the columns that are shown.
#[derive(Debug, Default)]
pub(crate) struct TableRows {
    pub(crate) table: Table,
    /// Indexes of the server's columns that are shown.
    columns: Vec<usize>,
    options: RowOptions,
    /// The revision after which a watch starts.
    pub(crate) revision: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TableResponse {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    column_definitions: Vec<ColumnDefinition>,
    rows: Option<Vec<TableRow>>,
    /// The items of a list, from a server that returned no table.
    items: Option<Vec<PartialObject>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

#[derive(Deserialize)]
struct ColumnDefinition {
    name: String,
    #[serde(default)]
    priority: i64,
}

#[derive(Deserialize)]
struct TableRow {
    #[serde(default)]
    cells: Vec<Value>,
    object: Option<PartialObject>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialObject {
    metadata: PartialMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialMetadata {
    name: String,
    namespace: String,
    labels: BTreeMap<String, String>,
    creation_timestamp: Value,
    resource_version: String,
}

/// The rows with whole objects, for `--sort-by` fields that are no column.
#[derive(Deserialize)]
struct FullTableResponse {
    #[serde(default)]
    rows: Vec<FullTableRow>,
}

#[derive(Deserialize)]
struct FullTableRow {
    #[serde(default)]
    object: Value,
}

// --- RowOptions ---

impl RowOptions {
    /// Returns the `includeObject` parameter: the smallest part of the objects that suffices.
    pub(crate) fn include_object(&self) -> &'static str {
        if self.sort.is_some() {
            "Object"
        } else if self.has_namespace || self.has_labels || self.is_watched || !self.labels.is_empty() {
            "Metadata"
        } else {
            "None"
        }
    }
}

// --- TableRows ---

impl TableRows {
    /// Parses a response.
    pub(crate) fn read(bytes: &[u8], options: RowOptions) -> Result<Self, ClientError> {
        let response = parse(bytes)?;
        if response.kind != "Table" {
            return Ok(Self::from_list(response, options));
        }
        let shown = |column: &ColumnDefinition| options.is_wide || column.priority == 0;
        let columns: Vec<usize> = (0..response.column_definitions.len())
            .filter(|&at| shown(&response.column_definitions[at]))
            .collect();
        let mut header: Vec<String> = Vec::new();
        header.extend(options.has_namespace.then(|| "NAMESPACE".to_owned()));
        header.extend(
            columns
                .iter()
                .map(|&at| response.column_definitions[at].name.to_uppercase()),
        );
        header.extend(options.labels.iter().map(|label| {
            let name = label.rsplit('/').next().unwrap_or(label);
            name.to_uppercase()
        }));
        header.extend(options.has_labels.then(|| "LABELS".to_owned()));
        let mut rows = Self {
            table: Table {
                header,
                rows: Vec::new(),
            },
            columns,
            revision: response.metadata.resource_version,
            options,
        };
        let mut lines: Vec<Vec<String>> = response
            .rows
            .unwrap_or_default()
            .into_iter()
            .map(|row| rows.line(row))
            .collect();
        if let Some(path) = &rows.options.sort {
            lines = sorted(bytes, path, lines)?;
        }
        rows.table.rows = lines;
        Ok(rows)
    }

    /// Converts the table of a watch event. Returns its rows and the revision of the last row.
    pub(crate) fn more(&self, table: Value) -> Result<(Vec<Vec<String>>, Option<String>), ClientError> {
        let response: TableResponse = serde_json::from_value(table).map_err(|error| invalid_table(&error))?;
        let rows = response.rows.unwrap_or_default();
        let revision = rows.last().and_then(|row| row.object.as_ref());
        let revision = revision.map(|object| object.metadata.resource_version.clone());
        Ok((rows.into_iter().map(|row| self.line(row)).collect(), revision))
    }

    fn line(&self, row: TableRow) -> Vec<String> {
        let object = row.object.unwrap_or_default();
        let mut line = Vec::with_capacity(self.table.header.len());
        line.extend(self.options.has_namespace.then_some(object.metadata.namespace));
        let mut cells = row.cells;
        for &at in &self.columns {
            line.push(text(cells.get_mut(at).map_or(Value::Null, Value::take)));
        }
        let name = line.get_mut(usize::from(self.options.has_namespace));
        if let (Some(name), Some(noun)) = (name, &self.options.noun) {
            *name = format!("{noun}/{name}");
        }
        let labels = &object.metadata.labels;
        for name in &self.options.labels {
            line.push(labels.get(name).cloned().unwrap_or_else(|| "<none>".to_owned()));
        }
        if self.options.has_labels {
            let pairs: Vec<String> = labels
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            line.push(if pairs.is_empty() {
                "<none>".to_owned()
            } else {
                pairs.join(",")
            });
        }
        line
    }

    /// Shows name and age of objects that the server did not render as a table.
    fn from_list(response: TableResponse, options: RowOptions) -> Self {
        let mut table = Table::new(if options.has_namespace {
            &["NAMESPACE", "NAME", "AGE"]
        } else {
            &["NAME", "AGE"]
        });
        for item in response.items.unwrap_or_default() {
            let mut line = Vec::new();
            line.extend(options.has_namespace.then_some(item.metadata.namespace));
            let name = item.metadata.name;
            line.push(match &options.noun {
                Some(noun) => format!("{noun}/{name}"),
                None => name,
            });
            line.push(age::since(&item.metadata.creation_timestamp));
            table.rows.push(line);
        }
        Self {
            table,
            columns: Vec::new(),
            revision: response.metadata.resource_version,
            options,
        }
    }
}

fn parse(bytes: &[u8]) -> Result<TableResponse, ClientError> {
    k3_decode::from_slice(bytes).map_err(|error| invalid_table(&error))
}

fn invalid_table(error: &serde_json::Error) -> ClientError {
    ClientError::new(format!("the server sent an invalid table: {error}"))
}

fn text(cell: Value) -> String {
    match cell {
        Value::String(text) => {
            // Line breaks within a cell would break the table.
            if text.contains(['\n', '\r']) {
                text.lines().next().unwrap_or("").to_owned() + "..."
            } else {
                text
            }
        }
        Value::Null => "<none>".to_owned(),
        value => value.to_string(),
    }
}

fn sorted(bytes: &[u8], path: &JsonPath, lines: Vec<Vec<String>>) -> Result<Vec<Vec<String>>, ClientError> {
    let response: FullTableResponse = k3_decode::from_slice(bytes).map_err(|error| invalid_table(&error))?;
    let mut pairs: Vec<_> = response
        .rows
        .iter()
        .map(|row| path.first(&row.object))
        .zip(lines)
        .collect();
    pairs.sort_by(|(left, _), (right, _)| compare(*left, *right));
    Ok(pairs.into_iter().map(|(_, line)| line).collect())
}

/// Compares values: absent values first, numbers as numbers, others as text.
pub(crate) fn compare(left: Option<&Value>, right: Option<&Value>) -> Ordering {
    match (left, right) {
        (Some(Value::Number(left)), Some(Value::Number(right))) => left
            .as_f64()
            .partial_cmp(&right.as_f64())
            .unwrap_or(Ordering::Equal),
        (Some(Value::String(left)), Some(Value::String(right))) => left.cmp(right),
        (Some(left), Some(right)) => left.to_string().cmp(&right.to_string()),
        (left, right) => left.is_some().cmp(&right.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table_response() -> Vec<u8> {
        let row = |name: &str, count: i64| {
            json!({"cells": [name, count, "x"], "object": {"metadata":
                {"name": name, "namespace": "n", "labels": {"app": "web"}}, "spec": {"count": count}}})
        };
        json!({"kind": "Table", "columnDefinitions": [
            {"name": "Name", "priority": 0}, {"name": "Count", "priority": 0}, {"name": "More", "priority": 1}],
            "rows": [row("a", 10), row("b", 9)]})
        .to_string()
        .into_bytes()
    }

    #[test]
    fn shows_the_requested_columns() {
        let rows = TableRows::read(&table_response(), RowOptions::default()).unwrap();
        assert_eq!(rows.table.header, ["NAME", "COUNT"]);
        assert_eq!(rows.table.rows, [["a", "10"], ["b", "9"]]);
        let options = RowOptions {
            is_wide: true,
            has_namespace: true,
            noun: Some("pod".to_owned()),
            has_labels: true,
            labels: vec!["x/app".to_owned(), "app".to_owned()],
            ..RowOptions::default()
        };
        let rows = TableRows::read(&table_response(), options).unwrap();
        assert_eq!(
            rows.table.header,
            ["NAMESPACE", "NAME", "COUNT", "MORE", "APP", "APP", "LABELS"]
        );
        assert_eq!(
            rows.table.rows[0],
            ["n", "pod/a", "10", "x", "<none>", "web", "app=web"]
        );
    }

    #[test]
    fn sorts_by_fields_that_are_not_shown() {
        let options = RowOptions {
            sort: Some(JsonPath::parse(".spec.count").unwrap()),
            ..RowOptions::default()
        };
        assert_eq!(options.include_object(), "Object");
        let rows = TableRows::read(&table_response(), options).unwrap();
        assert_eq!(rows.table.rows, [["b", "9"], ["a", "10"]]);
    }

    #[test]
    fn shows_names_when_the_server_returns_no_table() {
        let list = json!({"kind": "PodList", "items": [{"metadata": {"name": "a"}}]}).to_string();
        let rows = TableRows::read(list.as_bytes(), RowOptions::default()).unwrap();
        assert_eq!(rows.table.rows, [["a", "<unknown>"]]);
    }
}
