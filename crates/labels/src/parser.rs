//! Parser of label selectors.

// upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go Parser, Parse

use std::collections::BTreeSet;

use crate::{
    InvalidRequirement, Operator, Requirement,
    key::{ErrorMessages, validate_label_key},
    lexer::{Kind, ScannedItem, scan},
};

/// A text that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A word stands where another should.
    #[error(transparent)]
    Unexpected(UnexpectedWord),
    /// A requirement cannot be read.
    #[error("unable to parse requirement: {0}")]
    Requirement(#[from] UnexpectedWord),
    /// The key of a requirement is not that of a label.
    #[error("unable to parse requirement: key {key:?}: {}", messages.join("; "))]
    Key {
        /// The key.
        key: String,
        /// What is wrong with it.
        messages: ErrorMessages,
    },
    /// The values of a requirement are not valid.
    #[error("unable to parse requirement: {0}")]
    Invalid(#[from] InvalidRequirement),
}

/// A word, and what should stand in its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnexpectedWord(String);

struct Parser {
    /// Ends with the end.
    scanned_items: Vec<ScannedItem>,
    next: usize,
}

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// All requirements, in the order of the text.
pub(crate) fn parse(text: &str) -> Result<Vec<Requirement>, ParseError> {
    Parser {
        scanned_items: scan(text),
        next: 0,
    }
    .all()
}

// --- Parser ---

impl Parser {
    fn all(&mut self) -> Result<Vec<Requirement>, ParseError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Kind::Identifier | Kind::Not, _) => {}
                (Kind::End, _) => return Ok(requirements),
                (_, text) => return Err(unexpected(&text, "!, identifier, or 'end of string'")),
            }
            requirements.push(self.requirement()?);
            match self.take() {
                (Kind::End, _) => return Ok(requirements),
                (Kind::Comma, _) => match self.peek() {
                    (Kind::Identifier | Kind::Not, _) => {}
                    (_, text) => return Err(unexpected(&text, "identifier after ','")),
                },
                (_, text) => return Err(unexpected(&text, "',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, ParseError> {
        let (mut kind, mut key) = self.take();
        let negated = kind == Kind::Not;
        if negated {
            (kind, key) = self.take();
        }
        if kind != Kind::Identifier {
            return Err(found(&key, "identifier").into());
        }
        let messages = validate_label_key(&key);
        if !messages.is_empty() {
            return Err(ParseError::Key { key, messages });
        }
        // A key with a `!` before it stands alone: whatever follows is not its operator.
        let (operator, values) = if negated {
            (Operator::DoesNotExist, BTreeSet::new())
        } else if matches!(self.peek().0, Kind::End | Kind::Comma) {
            (Operator::Exists, BTreeSet::new())
        } else {
            self.comparison()?
        };
        Ok(Requirement::try_new(key, operator, values.into_iter().collect())?)
    }

    fn comparison(&mut self) -> Result<(Operator, BTreeSet<String>), UnexpectedWord> {
        let word = self.scanned_items[self.next].clone();
        self.take();
        let operator = match word.kind {
            Kind::In => Operator::In,
            Kind::NotIn => Operator::NotIn,
            Kind::Equals => Operator::Equals,
            Kind::DoubleEquals => Operator::DoubleEquals,
            Kind::NotEquals => Operator::NotEquals,
            Kind::Greater => Operator::GreaterThan,
            Kind::Less => Operator::LessThan,
            _ => return Err(found(&word.text, OPERATORS)),
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            _ => BTreeSet::from([self.value()?]),
        };
        Ok((operator, values))
    }

    /// `(a,b)`; each value may be empty.
    fn set(&mut self) -> Result<BTreeSet<String>, UnexpectedWord> {
        let (kind, text) = self.take();
        if kind != Kind::Open {
            return Err(UnexpectedWord(format!("found '{text}' expected: '('")));
        }
        match self.peek() {
            (Kind::Identifier | Kind::Comma, _) => {
                let values = self.values()?;
                self.take();
                Ok(values)
            }
            (Kind::Close, _) => {
                self.take();
                Ok(BTreeSet::from([String::new()]))
            }
            (_, text) => Err(found(&text, "',', ')' or identifier")),
        }
    }

    /// The values between the brackets; stops before the closing one.
    fn values(&mut self) -> Result<BTreeSet<String>, UnexpectedWord> {
        let mut values = BTreeSet::new();
        loop {
            match self.take() {
                (Kind::Identifier, value) => {
                    values.insert(value);
                    match self.peek() {
                        (Kind::Comma, _) => {}
                        (Kind::Close, _) => return Ok(values),
                        (_, text) => return Err(found(&text, "',' or ')'")),
                    }
                }
                (Kind::Comma, _) => {
                    let next = self.peek().0;
                    if values.is_empty() || matches!(next, Kind::Close | Kind::Comma) {
                        values.insert(String::new());
                    }
                    if next == Kind::Close {
                        return Ok(values);
                    }
                }
                (_, text) => return Err(found(&text, "',', or identifier")),
            }
        }
    }

    /// The one value after an operator; may be empty.
    fn value(&mut self) -> Result<String, UnexpectedWord> {
        if matches!(self.peek().0, Kind::End | Kind::Comma) {
            return Ok(String::new());
        }
        match self.take() {
            (Kind::Identifier, value) => Ok(value),
            (_, text) => Err(found(&text, "identifier")),
        }
    }

    /// The next word. `in` and `notin` are identifiers like others, except where an operator is asked for.
    fn peek(&self) -> (Kind, String) {
        let word = &self.scanned_items[self.next.min(self.scanned_items.len() - 1)];
        let kind = match word.kind {
            Kind::In | Kind::NotIn => Kind::Identifier,
            kind => kind,
        };
        (kind, word.text.clone())
    }

    fn take(&mut self) -> (Kind, String) {
        let word = self.peek();
        self.next += 1;
        word
    }
}

fn unexpected(text: &str, expected: &str) -> ParseError {
    ParseError::Unexpected(found(text, expected))
}

fn found(text: &str, expected: &str) -> UnexpectedWord {
    UnexpectedWord(format!("found '{text}', expected: {expected}"))
}
