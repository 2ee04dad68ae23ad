//! Label and field selectors.

use kube::core::Status;
use serde_json::Value;

use super::status;

/// Selects objects by namespace (all if empty), labels and fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) namespace: String,
    labels: Vec<LabelRule>,
    fields: Vec<FieldRule>,
}

#[derive(Clone, Debug)]
enum LabelRule {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// A field selector: a path, the expected value, and whether they must be equal or differ.
#[derive(Clone, Debug)]
struct FieldRule {
    path: String,
    value: String,
    equal: bool,
}

// --- Selection ---

impl Selection {
    pub(super) fn parse(namespace: &str, labels: &str, fields: &str) -> Result<Self, Box<Status>> {
        Ok(Selection {
            namespace: namespace.to_owned(),
            labels: clauses(labels)
                .iter()
                .map(|clause| LabelRule::parse(clause))
                .collect::<Option<_>>()
                .ok_or_else(|| status::bad_request(&format!("unable to parse requirement: {labels}")))?,
            fields: clauses(fields)
                .iter()
                .map(|clause| FieldRule::parse(clause))
                .collect::<Option<_>>()
                .ok_or_else(|| status::bad_request(&format!("invalid field selector: {fields}")))?,
        })
    }

    /// Whether it selects less than all objects of its namespace.
    pub(super) fn is_narrow(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    pub(super) fn fits(&self, object: &Value) -> bool {
        (self.namespace.is_empty() || object["metadata"]["namespace"].as_str() == Some(&self.namespace))
            && self
                .labels
                .iter()
                .all(|rule| rule.fits(&object["metadata"]["labels"]))
            && self.fields.iter().all(|rule| rule.fits(object))
    }
}

/// Splits at commas outside of parentheses.
fn clauses(text: &str) -> Vec<String> {
    let mut depth = 0;
    let mut found = vec![String::new()];
    for letter in text.chars() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        if letter == ',' && depth == 0 {
            found.push(String::new());
        } else if let Some(last) = found.last_mut() {
            last.push(letter);
        }
    }
    found.retain(|clause| !clause.trim().is_empty());
    found
}

// --- LabelRule ---

impl LabelRule {
    fn parse(clause: &str) -> Option<Self> {
        let clause = clause.trim();
        let one = |key: &str, value: &str| (key.trim().to_owned(), vec![value.trim().to_owned()]);
        if let Some((left, values)) = clause.split_once('(') {
            let mut tokens = left.split_whitespace();
            let key = tokens.next()?.to_owned();
            let operator = tokens.next()?;
            let values = values
                .strip_suffix(')')?
                .split(',')
                .map(|value| value.trim().to_owned())
                .collect();
            return match operator {
                "in" => Some(LabelRule::In(key, values)),
                "notin" => Some(LabelRule::NotIn(key, values)),
                _ => None,
            };
        }
        if let Some((key, value)) = clause.split_once("!=") {
            let (key, values) = one(key, value);
            return Some(LabelRule::NotIn(key, values));
        }
        if let Some((key, value)) = clause.split_once("==").or_else(|| clause.split_once('=')) {
            let (key, values) = one(key, value);
            return Some(LabelRule::In(key, values));
        }
        let name = clause.trim_start_matches('!').trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return None;
        }
        Some(if clause.starts_with('!') {
            LabelRule::Absent(name.to_owned())
        } else {
            LabelRule::Exists(name.to_owned())
        })
    }

    fn fits(&self, labels: &Value) -> bool {
        let value = |key: &String| labels.get(key).and_then(Value::as_str);
        match self {
            LabelRule::In(key, values) => {
                value(key).is_some_and(|value| values.iter().any(|one| one == value))
            }
            LabelRule::NotIn(key, values) => {
                value(key).is_none_or(|value| values.iter().all(|one| one != value))
            }
            LabelRule::Exists(key) => value(key).is_some(),
            LabelRule::Absent(key) => value(key).is_none(),
        }
    }
}

// --- FieldRule ---

impl FieldRule {
    fn parse(clause: &str) -> Option<Self> {
        let (path, value, equal) = if let Some((path, value)) = clause.split_once("!=") {
            (path, value, false)
        } else {
            let (path, value) = clause.split_once("==").or_else(|| clause.split_once('='))?;
            (path, value, true)
        };
        Some(FieldRule {
            path: path.trim().to_owned(),
            value: value.trim().to_owned(),
            equal,
        })
    }

    /// An absent field equals the empty string.
    fn fits(&self, object: &Value) -> bool {
        let field = self.path.split('.').fold(object, |value, name| &value[name]);
        let text = match field {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        (text == self.value) == self.equal
    }
}
