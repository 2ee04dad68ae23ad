//! Tables that the server makes, read without more of them than is shown.

use std::{cmp::Ordering, collections::BTreeMap};

use serde::Deserialize;
use serde_json::Value;

use crate::{age, failed::Failed, jsonpath::Path, table::Table};

/// Tables, or what a server has that makes none.
pub(crate) const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// What is shown of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form {
    pub(crate) is_wide: bool,
    pub(crate) has_namespace: bool,
    /// What stands before each name, to say of what kind it is.
    pub(crate) noun: Option<String>,
    /// Labels that are columns of their own.
    pub(crate) labels: Vec<String>,
    /// All labels, in the last column.
    pub(crate) has_labels: bool,
    pub(crate) sort: Option<Path>,
}

/// Rows as they are shown.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) table: Table,
    /// Those of the server that are shown.
    columns: Vec<usize>,
    form: Form,
    /// Where a watch goes on.
    pub(crate) revision: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Revision,
    #[serde(default)]
    column_definitions: Vec<Column>,
    rows: Option<Vec<Row>>,
    /// Of a server that makes no tables.
    items: Option<Vec<Meta>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Revision {
    resource_version: String,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    #[serde(default)]
    priority: i64,
}

#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    cells: Vec<Value>,
    object: Option<Meta>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    metadata: ShortMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ShortMeta {
    name: String,
    namespace: String,
    labels: BTreeMap<String, String>,
    creation_timestamp: Value,
    resource_version: String,
}

/// The same rows, for who orders them by what tables do not show.
#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    rows: Vec<WholeRow>,
}

#[derive(Deserialize)]
struct WholeRow {
    #[serde(default)]
    object: Value,
}

// --- Form ---

impl Form {
    /// How much of each object has to be sent along.
    pub(crate) fn includes(&self, is_watched: bool) -> &'static str {
        if self.sort.is_some() {
            "Object"
        } else if self.has_namespace || self.has_labels || is_watched || !self.labels.is_empty() {
            "Metadata"
        } else {
            "None"
        }
    }
}

// --- Rows ---

impl Rows {
    /// What an answer shows.
    pub(crate) fn read(bytes: &[u8], form: Form) -> Result<Self, Failed> {
        let sent = parse(bytes)?;
        if sent.kind != "Table" {
            return Ok(Self::plain(sent, form));
        }
        let shown = |column: &Column| form.is_wide || column.priority == 0;
        let columns: Vec<usize> = (0..sent.column_definitions.len())
            .filter(|&at| shown(&sent.column_definitions[at]))
            .collect();
        let mut header: Vec<String> = Vec::new();
        header.extend(form.has_namespace.then(|| "NAMESPACE".to_owned()));
        header.extend(
            columns
                .iter()
                .map(|&at| sent.column_definitions[at].name.to_uppercase()),
        );
        header.extend(form.labels.iter().map(|label| {
            let name = label.rsplit('/').next().unwrap_or(label);
            name.to_uppercase()
        }));
        header.extend(form.has_labels.then(|| "LABELS".to_owned()));
        let mut rows = Self {
            table: Table {
                header,
                rows: Vec::new(),
            },
            columns,
            revision: sent.metadata.resource_version,
            form,
        };
        let mut lines: Vec<Vec<String>> = sent
            .rows
            .unwrap_or_default()
            .into_iter()
            .map(|row| rows.line(row))
            .collect();
        if let Some(path) = &rows.form.sort {
            lines = sorted(bytes, path, lines)?;
        }
        rows.table.rows = lines;
        Ok(rows)
    }

    /// The rows of what a watch tells, under the same columns, and the revision of the last.
    pub(crate) fn more(&self, table: Value) -> Result<(Vec<Vec<String>>, Option<String>), Failed> {
        let sent: Sent = serde_json::from_value(table).map_err(|error| nonsense(&error))?;
        let rows = sent.rows.unwrap_or_default();
        let revision = rows.last().and_then(|row| row.object.as_ref());
        let revision = revision.map(|object| object.metadata.resource_version.clone());
        Ok((rows.into_iter().map(|row| self.line(row)).collect(), revision))
    }

    fn line(&self, row: Row) -> Vec<String> {
        let object = row.object.unwrap_or_default();
        let mut line = Vec::with_capacity(self.table.header.len());
        line.extend(self.form.has_namespace.then_some(object.metadata.namespace));
        let mut cells = row.cells;
        for &at in &self.columns {
            line.push(text(cells.get_mut(at).map(Value::take).unwrap_or_default()));
        }
        let name = line.get_mut(usize::from(self.form.has_namespace));
        if let (Some(name), Some(noun)) = (name, &self.form.noun) {
            *name = format!("{noun}/{name}");
        }
        let labels = &object.metadata.labels;
        for name in &self.form.labels {
            line.push(labels.get(name).cloned().unwrap_or_else(|| "<none>".to_owned()));
        }
        if self.form.has_labels {
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

    /// Names and ages, where the server makes no tables.
    fn plain(sent: Sent, form: Form) -> Self {
        let mut table = Table::new(if form.has_namespace {
            &["NAMESPACE", "NAME", "AGE"]
        } else {
            &["NAME", "AGE"]
        });
        for item in sent.items.unwrap_or_default() {
            let mut line = Vec::new();
            line.extend(form.has_namespace.then_some(item.metadata.namespace));
            let name = item.metadata.name;
            line.push(match &form.noun {
                Some(noun) => format!("{noun}/{name}"),
                None => name,
            });
            line.push(age::since(&item.metadata.creation_timestamp));
            table.rows.push(line);
        }
        Self {
            table,
            columns: Vec::new(),
            revision: sent.metadata.resource_version,
            form,
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Sent, Failed> {
    k3_decode::from_slice(bytes).map_err(|error| nonsense(&error))
}

fn nonsense(error: &serde_json::Error) -> Failed {
    Failed::new(format!("the server sent a table that makes no sense: {error}"))
}

fn text(cell: Value) -> String {
    match cell {
        Value::String(text) => {
            // A line is a line.
            if text.contains(['\n', '\r']) {
                text.lines().next().unwrap_or_default().to_owned() + "..."
            } else {
                text
            }
        }
        Value::Null => "<none>".to_owned(),
        value => value.to_string(),
    }
}

fn sorted(bytes: &[u8], path: &Path, lines: Vec<Vec<String>>) -> Result<Vec<Vec<String>>, Failed> {
    let whole: Whole = k3_decode::from_slice(bytes).map_err(|error| nonsense(&error))?;
    let mut pairs: Vec<_> = whole
        .rows
        .iter()
        .map(|row| path.first(&row.object))
        .zip(lines)
        .collect();
    pairs.sort_by(|(left, _), (right, _)| compare(*left, *right));
    Ok(pairs.into_iter().map(|(_, line)| line).collect())
}

/// The order of values: nothing first, numbers as numbers, all else as text.
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

    fn sent() -> Vec<u8> {
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
    fn columns_are_those_that_are_asked_for() {
        let rows = Rows::read(&sent(), Form::default()).unwrap();
        assert_eq!(rows.table.header, ["NAME", "COUNT"]);
        assert_eq!(rows.table.rows, [["a", "10"], ["b", "9"]]);
        let form = Form {
            is_wide: true,
            has_namespace: true,
            noun: Some("pod".to_owned()),
            has_labels: true,
            labels: vec!["x/app".to_owned(), "app".to_owned()],
            sort: None,
        };
        let rows = Rows::read(&sent(), form).unwrap();
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
    fn rows_are_ordered_by_what_is_not_shown() {
        let form = Form {
            sort: Some(Path::parse(".spec.count").unwrap()),
            ..Form::default()
        };
        assert_eq!(form.includes(false), "Object");
        let rows = Rows::read(&sent(), form).unwrap();
        assert_eq!(rows.table.rows, [["b", "9"], ["a", "10"]]);
    }

    #[test]
    fn a_server_without_tables_is_shown_by_names() {
        let list = json!({"kind": "PodList", "items": [{"metadata": {"name": "a"}}]}).to_string();
        let rows = Rows::read(list.as_bytes(), Form::default()).unwrap();
        assert_eq!(rows.table.rows, [["a", "<unknown>"]]);
    }
}
