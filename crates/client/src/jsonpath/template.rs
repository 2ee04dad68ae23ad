//! Templates: text with paths.

use serde_json::Value;

use super::path::JsonPath;

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPathTemplate(pub(super) Vec<TemplatePiece>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TemplatePiece {
    Text(String),
    JsonPath(JsonPath),
    /// The pieces to repeat for each value of the path.
    Range(JsonPath, Vec<TemplatePiece>),
}

// --- JsonPathTemplate ---

impl JsonPathTemplate {
    /// Evaluates the template for an object.
    pub(crate) fn fill(&self, object: &Value) -> String {
        let mut text = String::new();
        fill(&self.0, object, object, &mut text);
        text
    }
}

fn fill(pieces: &[TemplatePiece], root: &Value, here: &Value, text: &mut String) {
    for piece in pieces {
        match piece {
            TemplatePiece::Text(literal) => text.push_str(literal),
            TemplatePiece::JsonPath(path) => {
                for (index, value) in path.find(root, here).into_iter().enumerate() {
                    if index > 0 {
                        text.push(' ');
                    }
                    text.push_str(&shown(value));
                }
            }
            TemplatePiece::Range(path, pieces) => {
                for value in path.find(root, here) {
                    fill(pieces, root, value, text);
                }
            }
        }
    }
}

/// Formats a value; strings have no quotes.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
