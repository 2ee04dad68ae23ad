//! The results of another run, to set this one beside: a table in Markdown with what an operation costs upstream, what it cost
//! k3, and how many times less than upstream is asked of it.

use std::path::Path;

use serde::Serialize;

use super::upstream::OperationRow;
use crate::{BenchError, requirement, table::Table};

/// The rows of that table that are about operations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Baseline {
    rows: Vec<BaselineRow>,
}

/// What an operation cost in the other run: CPU seconds of the server for 1,000 of them.
#[derive(Clone, Debug, PartialEq)]
struct BaselineRow {
    operation: String,
    upstream: f64,
    k3: f64,
    /// How many times less than upstream is asked.
    asked: f64,
}

/// An operation of this run beside the same one of the other run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ComparedRow {
    operation: String,
    upstream: f64,
    before: f64,
    asked: f64,
    /// `None` if this run does not measure the operation.
    now: Option<f64>,
    met: Option<bool>,
}

/// What our operations are called in the table, and how many times as many objects ours has.
const NAMES: [(&str, &str, f64); 18] = [
    ("create ConfigMap", "create ConfigMap, 1 KiB, durable", 1.0),
    ("create Pod", "create Pod, 2.5 KiB sent (6 KiB stored)", 1.0),
    ("get ConfigMap", "get ConfigMap", 1.0),
    ("get Pod", "get Pod", 1.0),
    ("list 10,000 ConfigMaps", "list 5,000 ConfigMaps", 2.0),
    ("list 5,000 Pods", "list 2,500 Pods", 2.0),
    ("list page of 500 Pods", "list page of 500 Pods", 1.0),
    (
        "list by label, 1 % of Pods",
        "list by label, 1 % of 2,500 Pods",
        2.0,
    ),
    ("update ConfigMap", "update ConfigMap", 1.0),
    ("merge patch Pod status", "merge patch of Pod status", 1.0),
    ("apply ConfigMap, new", "server-side apply, new ConfigMap", 1.0),
    (
        "apply ConfigMap, change",
        "server-side apply, changed ConfigMap",
        1.0,
    ),
    ("apply Deployment, new", "server-side apply, new Deployment", 1.0),
    (
        "apply Deployment, change",
        "server-side apply, changed Deployment",
        1.0,
    ),
    ("delete ConfigMap", "delete ConfigMap", 1.0),
    ("delete Pod", "delete Pod", 1.0),
    (
        "watch event, 100 watchers",
        "watch event delivered, 100 watchers",
        1.0,
    ),
    (
        "watch event, 1,000 watchers",
        "watch event delivered, 1,000 watchers",
        1.0,
    ),
];

// --- Baseline ---

impl Baseline {
    pub(crate) fn read(path: &Path) -> Result<Self, BenchError> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let baseline = Self::parse(&text);
        if baseline.rows.is_empty() {
            return Err(format!("{}: no table of operations", path.display()).into());
        }
        Ok(baseline)
    }

    /// Rows of other tables have other columns: what is no number is passed over.
    fn parse(text: &str) -> Self {
        let rows = text.lines().filter_map(|line| {
            let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
            let [operation, upstream, k3, _, asked, _] = cells[..] else {
                return None;
            };
            Some(BaselineRow {
                operation: operation.to_owned(),
                upstream: upstream.parse().ok()?,
                k3: k3.parse().ok()?,
                asked: asked.strip_prefix(">=")?.trim().strip_suffix('x')?.parse().ok()?,
            })
        });
        Self { rows: rows.collect() }
    }

    /// Sets the operations of this run beside the table, in its order.
    pub(crate) fn compare(&self, operations: &[OperationRow]) -> Vec<ComparedRow> {
        let rows = self.rows.iter();
        rows.map(|row| {
            let known = NAMES.iter().find(|(_, theirs, _)| *theirs == row.operation);
            let measured = known.and_then(|(ours, _, times)| {
                let found = operations.iter().find(|found| found.operation == *ours)?;
                Some((found, found.cpu_s_per_1000 / times))
            });
            ComparedRow {
                operation: row.operation.clone(),
                upstream: row.upstream,
                before: row.k3,
                asked: row.asked,
                now: measured.map(|(_, now)| now),
                met: measured.map(|(found, now)| found.errors == 0 && now * row.asked <= row.upstream),
            }
        })
        .collect()
    }
}

/// The comparison as a table.
pub(crate) fn print(rows: &[ComparedRow]) {
    let mut table = Table::new([
        "",
        "upstream",
        "before",
        "now",
        "times before",
        "times less than upstream",
        "asked",
        "met",
    ]);
    for row in rows {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), requirement::figure);
        table.row([
            row.operation.clone(),
            format!("{}", row.upstream),
            format!("{}", row.before),
            row.now.map_or_else(|| "-".to_owned(), |now| format!("{now:.4}")),
            figure(row.now.filter(|_| row.before > 0.0).map(|now| now / row.before)),
            figure(row.now.filter(|now| *now > 0.0).map(|now| row.upstream / now)),
            format!("{}", row.asked),
            requirement::answer(row.met).to_owned(),
        ]);
    }
    table.print("Against the other run (CPU seconds of the server for 1,000 operations)");
}

/// The operations that cost more than is asked.
pub(crate) fn missed(rows: &[ComparedRow]) -> Vec<&str> {
    let missed = rows.iter().filter(|row| row.met == Some(false));
    missed.map(|row| row.operation.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::load::LoadResult, *};
    use crate::latency::Latencies;

    const TEXT: &str = "\
| operation | upstream CPU s / 1,000 | k3 CPU s / 1,000 | cheaper by | asked | ops/s upstream, k3 |
| --- | --- | --- | --- | --- | --- |
| create Pod, 2.5 KiB sent (6 KiB stored) | 6.56 | 0.9 | 7.3x | >= 14x | 297, 1,578 |
| list 2,500 Pods | 498 | 16 | 31.1x | >= 25x | 2, 11 |
| create custom resource | 5.85 | 0.28 | 20.9x | >= 20x | 227, 4,148 |

| state | upstream | k3 | asked of k3 |
| idle memory | 495 MB (four processes) | 46.7 MB | <= 40 MiB |";

    fn row(operation: &'static str, cpu_ms: u64) -> OperationRow {
        let measured = LoadResult {
            operations: 1000,
            took: Duration::from_secs(2),
            cpu: Duration::from_millis(cpu_ms),
            latency: Latencies::default().percentiles(),
            bytes: 0,
            errors: 0,
            first_error: None,
        };
        OperationRow::new(operation, measured)
    }

    #[test]
    fn operations_are_compared_with_what_is_asked() {
        let baseline = Baseline::parse(TEXT);
        let rows = baseline.compare(&[row("create Pod", 500), row("list 5,000 Pods", 30_000)]);
        let met: Vec<_> = rows.iter().map(|row| row.met).collect();
        assert_eq!(met, [Some(false), Some(true), None]);
        assert_eq!(rows[1].now, Some(15.0));
        assert_eq!(missed(&rows), ["create Pod, 2.5 KiB sent (6 KiB stored)"]);
    }

    #[test]
    fn every_operation_has_its_name_in_the_table() {
        for (ours, _, _) in NAMES {
            assert_eq!(row(ours, 1).operation, ours);
        }
    }
}
