//! What the player found: how many answers were as recorded, by category, and whether that is enough.

use std::fmt;

use serde_json::Value;

use crate::Outcome;

/// Of 1,000 bodies so many must be as recorded.
const ASKED_BODIES: u64 = 970;
/// Of 1,000 status codes so many must be as recorded.
const ASKED_STATUS: u64 = 995;

/// The outcome of a play.
pub(super) struct Score {
    categories: Vec<(String, Numbers)>,
    /// The cases, as the player reports them.
    cases: Vec<Value>,
}

/// Why what the player printed is no score.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScoreError {
    #[error("the player printed no JSON: {0}")]
    Json(#[source] serde_json::Error),
    #[error("the player's answer has no summary")]
    NoSummary,
}

/// What was right, and of how many.
#[derive(Clone, Copy, Default)]
struct Numbers {
    cases: u64,
    passed: u64,
    steps: u64,
    status: u64,
    body: u64,
}

// --- Score ---

impl Score {
    /// Reads what the player prints with `--json`.
    pub(super) fn read(output: &[u8]) -> Result<Self, ScoreError> {
        let report: Value = serde_json::from_slice(output).map_err(ScoreError::Json)?;
        let summary = report
            .get("summary")
            .and_then(Value::as_object)
            .ok_or(ScoreError::NoSummary)?;
        let categories = summary
            .iter()
            .map(|(name, numbers)| (name.clone(), Numbers::read(numbers)))
            .collect();
        let cases = match report.get("cases") {
            Some(Value::Array(cases)) => cases.clone(),
            _ => Vec::new(),
        };
        Ok(Self { categories, cases })
    }

    /// The sum of all categories.
    fn sum(&self) -> Numbers {
        let mut sum = Numbers::default();
        for (_, numbers) in &self.categories {
            sum.cases += numbers.cases;
            sum.passed += numbers.passed;
            sum.steps += numbers.steps;
            sum.status += numbers.status;
            sum.body += numbers.body;
        }
        sum
    }

    /// Whether nothing was played.
    pub(super) fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// Whether enough was right. A play without a single case is a mistake, not a success.
    pub(super) fn outcome(&self) -> Outcome {
        let sum = self.sum();
        let enough = |right: u64, asked: u64| right * 1_000 >= asked * sum.steps;
        if !self.is_empty() && enough(sum.body, ASKED_BODIES) && enough(sum.status, ASKED_STATUS) {
            Outcome::Done
        } else {
            Outcome::Failed
        }
    }

    /// Prints the first `limit` differences of each case that failed.
    pub(super) fn show_differences(&self, limit: usize) {
        if limit == 0 {
            return;
        }
        for case in self.cases.iter().filter(|case| case["pass"] != true) {
            println!("FAIL {}/{}", text(&case["category"]), text(&case["name"]));
            let mut lines = case["steps"]
                .as_array()
                .into_iter()
                .flatten()
                .flat_map(differences);
            for line in lines.by_ref().take(limit) {
                println!("{line}");
            }
            let left = lines.count();
            if left > 0 {
                println!("   {left} more");
            }
        }
    }
}

/// The differences of a step, each as some lines of text.
fn differences(step: &Value) -> impl Iterator<Item = String> + '_ {
    let differences = step["diffs"].as_array().into_iter().flatten();
    differences.map(move |difference| {
        let [step, method, path] = ["step", "method", "path"].map(|key| text(&step[key]));
        let [field, want, got] = [0, 1, 2].map(|index| shortened(&text(&difference[index])));
        format!("   [{step}] {method} {path}\n      at {field}\n      want {want}\n      got  {got}")
    })
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shortened(text: &str) -> String {
    const LIMIT: usize = 700;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20} {:>13} {:>21} {:>21}",
            "category", "cases", "step status", "step body"
        )?;
        for (name, numbers) in &self.categories {
            writeln!(f, "{name:<20} {numbers}")?;
        }
        writeln!(f, "{:<20} {}", "TOTAL", self.sum())?;
        let percent = |thousandths: u64| format!("{}.{} %", thousandths / 10, thousandths % 10);
        write!(
            f,
            "{:<20} {:>13} {:>21} {:>21}",
            "asked",
            "",
            percent(ASKED_STATUS),
            percent(ASKED_BODIES)
        )
    }
}

// --- Numbers ---

impl Numbers {
    fn read(numbers: &Value) -> Self {
        let number = |key: &str| numbers[key].as_u64().unwrap_or_default();
        Self {
            cases: number("cases"),
            passed: number("passed"),
            steps: number("steps"),
            status: number("status"),
            body: number("body"),
        }
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |right: u64| {
            let thousandths = (right * 1_000).checked_div(self.steps).unwrap_or_default();
            let percent = format!("{}.{} %", thousandths / 10, thousandths % 10);
            format!("{right}/{} {percent:>8}", self.steps)
        };
        write!(
            f,
            "{:>13} {:>21} {:>21}",
            format!("{}/{}", self.passed, self.cases),
            share(self.status),
            share(self.body)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(categories: &[(&str, u64, u64, u64)]) -> Score {
        let summary: serde_json::Map<_, _> = categories
            .iter()
            .map(|(name, steps, status, body)| {
                let numbers =
                    serde_json::json!({"cases": 2, "passed": 1, "steps": steps, "status": status, "body": body});
                ((*name).to_owned(), numbers)
            })
            .collect();
        let cases = serde_json::json!([{"category": "a", "name": "b", "pass": true, "steps": []}]);
        let report = serde_json::json!({"summary": summary, "cases": cases});
        Score::read(report.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn enough_is_what_was_asked_and_no_less() {
        assert_eq!(score(&[("apply", 1_000, 995, 970)]).outcome(), Outcome::Done);
        assert_eq!(score(&[("apply", 1_000, 994, 970)]).outcome(), Outcome::Failed);
        assert_eq!(score(&[("apply", 1_000, 995, 969)]).outcome(), Outcome::Failed);
    }

    #[test]
    fn all_categories_count() {
        let score = score(&[("apply", 1_000, 1_000, 1_000), ("crd", 1_000, 0, 0)]);
        assert_eq!(score.outcome(), Outcome::Failed);
        let shown = score.to_string();
        assert!(shown.contains("1000/2000   50.0 %"), "{shown}");
    }

    #[test]
    fn nothing_played_is_no_success() {
        let nothing = Score::read(br#"{"summary": {}, "cases": []}"#).unwrap();
        assert_eq!(nothing.outcome(), Outcome::Failed);
        assert!(Score::read(b"Traceback").is_err());
    }
}
