//! Label and field selectors.

use kube::core::Status;
use serde_json::Value;

use super::status;
use crate::selector::{ParseError, Selector};

/// Selects objects by namespace (all if empty), labels and fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) namespace: String,
    labels: Selector,
    fields: Vec<FieldRule>,
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
            labels: labels
                .parse()
                .map_err(|error: ParseError| status::bad_request(&error.to_string()))?,
            fields: fields
                .split(',')
                .filter(|clause| !clause.trim().is_empty())
                .map(FieldRule::parse)
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
            && self.labels.matches(&object["metadata"]["labels"].as_object())
            && self.fields.iter().all(|rule| rule.fits(object))
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
