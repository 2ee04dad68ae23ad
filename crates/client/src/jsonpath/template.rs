//! Texts with paths in them.

use serde_json::Value;

use super::path::Path;

/// A template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template(pub(super) Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Path(Path),
    /// The pieces for each value that the path leads to.
    Range(Path, Vec<Piece>),
}

// --- Template ---

impl Template {
    /// The text for an object.
    pub(crate) fn fill(&self, object: &Value) -> String {
        let mut text = String::new();
        fill(&self.0, object, object, &mut text);
        text
    }
}

fn fill(pieces: &[Piece], root: &Value, here: &Value, text: &mut String) {
    for piece in pieces {
        match piece {
            Piece::Text(literal) => text.push_str(literal),
            Piece::Path(path) => {
                for (index, value) in path.find(root, here).into_iter().enumerate() {
                    if index > 0 {
                        text.push(' ');
                    }
                    text.push_str(&shown(value));
                }
            }
            Piece::Range(path, pieces) => {
                for value in path.find(root, here) {
                    fill(pieces, root, value, text);
                }
            }
        }
    }
}

/// A value without the quotes of texts.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
