//! Templates: text with paths, such as `{range .items[*]}{.metadata.name}{"\n"}{end}`.

use serde_json::Value;

use crate::{
    error::ParseError,
    parse::parse_pieces,
    path::{JsonPath, PathStep},
};

/// A template.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(Vec<TemplateNode>);

/// A text or an action, before ranges are matched with their ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Path(JsonPath),
}

#[derive(Clone, Debug, PartialEq)]
enum TemplateNode {
    Text(String),
    Path(JsonPath),
    /// The nodes to repeat for each value of the path.
    Range(JsonPath, Vec<TemplateNode>),
}

// --- Template ---

impl Template {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut open: Vec<(JsonPath, Vec<TemplateNode>)> = Vec::new();
        let mut nodes = Vec::new();
        for piece in parse_pieces(text)? {
            let mut path = match piece {
                Piece::Text(text) => {
                    nodes.push(TemplateNode::Text(text));
                    continue;
                }
                Piece::Path(path) => path,
            };
            match path.steps.first() {
                // `{}` prints nothing.
                None => {}
                Some(PathStep::Identifier(name)) if name == "range" => {
                    path.steps.remove(0);
                    path.check()?;
                    open.push((path, std::mem::take(&mut nodes)));
                }
                Some(PathStep::Identifier(name)) if name == "end" => {
                    let (path, outer) = open.pop().ok_or(ParseError::EndWithoutRange)?;
                    let inner = std::mem::replace(&mut nodes, outer);
                    nodes.push(TemplateNode::Range(path, inner));
                }
                Some(_) => {
                    path.check()?;
                    nodes.push(TemplateNode::Path(path));
                }
            }
        }
        if !open.is_empty() {
            return Err(ParseError::UnterminatedRange);
        }
        Ok(Template(nodes))
    }

    /// Evaluates the template for an object. What the object does not have yields nothing.
    pub fn evaluate(&self, object: &Value) -> String {
        let mut text = String::new();
        evaluate(&self.0, object, &mut text);
        text
    }
}

fn evaluate(nodes: &[TemplateNode], value: &Value, text: &mut String) {
    for node in nodes {
        match node {
            TemplateNode::Text(literal) => text.push_str(literal),
            TemplateNode::Path(path) => {
                for (index, found) in path.find_lenient(value).into_iter().enumerate() {
                    if index > 0 {
                        text.push(' ');
                    }
                    match found {
                        Value::String(found) => text.push_str(found),
                        found => text.push_str(&found.to_string()),
                    }
                }
            }
            TemplateNode::Range(path, inner) => {
                for found in path.find_lenient(value) {
                    evaluate(inner, found, text);
                }
            }
        }
    }
}
