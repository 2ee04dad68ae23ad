//! Paths: sequences of steps from values to other values.

use serde_json::Value;

use crate::{
    error::ParseError,
    filter::Filter,
    parse::{parse_action, parse_pieces},
    template::Piece,
};

/// A path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonPath {
    pub(crate) steps: Vec<PathStep>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PathStep {
    /// `.name`, `['name']`; the empty name stands for the value itself.
    Field(String),
    /// `.*`
    Wildcard,
    /// `..`
    Descent,
    /// `[0]`, `[-1]`
    Index(i64),
    /// `[1:3]`, `[::2]`, `[*]`
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: Option<i64>,
    },
    /// `['a','b']`, `[0,2]`
    Union(Vec<JsonPath>),
    /// `[?(@.a=="b")]`
    Filter(Box<Filter>),
    /// A text, number or boolean, which replaces the value.
    Literal(Value),
    /// `range`, `end`
    Identifier(String),
}

impl JsonPath {
    /// Parses what stands between the braces of a template. Braces within the text begin further actions, which are
    /// checked and ignored.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse_action(text)
    }

    /// Parses a path in any form that kubectl takes for columns and sorting: `{.a.b}`, `.a.b` or `a.b`.
    // upstream: staging/src/k8s.io/kubectl/pkg/cmd/get/customcolumn.go RelaxedJSONPathExpression
    pub fn parse_relaxed(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        let bare = text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(text)
            .trim();
        let dot = if bare.starts_with(['.', '[', '$', '@']) {
            ""
        } else {
            "."
        };
        let mut pieces = parse_pieces(&format!("{{{dot}{bare}}}"))?;
        let path = match pieces.pop() {
            Some(Piece::Path(path)) if pieces.is_empty() => path,
            _ => return Err(ParseError::NotSinglePath),
        };
        path.check()?;
        Ok(path)
    }

    /// Rejects words and comparisons that no evaluation accepts.
    pub(crate) fn check(&self) -> Result<(), ParseError> {
        self.steps.iter().try_for_each(|step| match step {
            PathStep::Identifier(name) => Err(ParseError::Identifier(name.clone())),
            PathStep::Union(paths) => paths.iter().try_for_each(Self::check),
            PathStep::Filter(filter) => filter.check(),
            _ => Ok(()),
        })
    }
}
