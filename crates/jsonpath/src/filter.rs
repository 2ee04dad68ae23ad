//! Filters of list items.

use std::cmp::Ordering;

use serde_json::Value;

use crate::{
    error::{EvaluationError, ParseError},
    evaluate::Evaluation,
    path::JsonPath,
};

/// `[?(@.a=="b")]`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter {
    pub(crate) left: JsonPath,
    pub(crate) comparison: Comparison,
    pub(crate) right: JsonPath,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// An error when it is evaluated, like in client-go.
    Unknown(String),
}

// --- Filter ---

impl Filter {
    pub(crate) fn check(&self) -> Result<(), ParseError> {
        if let Comparison::Unknown(operator) = &self.comparison {
            return Err(ParseError::Operator(operator.clone()));
        }
        self.left.check()?;
        self.right.check()
    }

    pub(crate) fn matches(&self, item: &Value, evaluation: Evaluation) -> Result<bool, EvaluationError> {
        let left = self.left.evaluate(item, evaluation);
        if self.comparison == Comparison::Exists {
            return Ok(left.is_ok_and(|found| !found.is_empty()));
        }
        let left = left?;
        let left = match left[..] {
            [] => return Ok(false),
            [left] => left,
            _ => return Err(EvaluationError::Several),
        };
        let right = self.right.evaluate(item, evaluation)?;
        match right[..] {
            [] => Ok(false),
            [right] => self.comparison.holds(left, right, evaluation),
            _ => Err(EvaluationError::Several),
        }
    }
}

// --- Comparison ---

impl Comparison {
    pub(crate) fn parse(operator: &str) -> Self {
        match operator {
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            operator => Comparison::Unknown(operator.to_owned()),
        }
    }

    // upstream: staging/src/k8s.io/client-go/third_party/forked/golang/template/funcs.go Equal, Less
    fn holds(&self, left: &Value, right: &Value, evaluation: Evaluation) -> Result<bool, EvaluationError> {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            (Value::Number(left), Value::Number(right))
                // To Go an integer and a floating-point number are of different types.
                if left.is_f64() == right.is_f64() || evaluation == Evaluation::Lenient =>
            {
                left.as_f64().partial_cmp(&right.as_f64())
            }
            _ => None,
        };
        let Some(order) = order else {
            return match (evaluation, self) {
                (Evaluation::Lenient, Comparison::Equal) => Ok(left == right),
                (Evaluation::Lenient, Comparison::NotEqual) => Ok(left != right),
                (Evaluation::Lenient, _) => Ok(false),
                (Evaluation::Strict, _) => Err(EvaluationError::Incompatible),
            };
        };
        Ok(match self {
            Comparison::Exists => true,
            Comparison::Equal => order == Ordering::Equal,
            Comparison::NotEqual => order != Ordering::Equal,
            Comparison::Less => order == Ordering::Less,
            Comparison::LessOrEqual => order != Ordering::Greater,
            Comparison::Greater => order == Ordering::Greater,
            Comparison::GreaterOrEqual => order != Ordering::Less,
            Comparison::Unknown(operator) => return Err(EvaluationError::Operator(operator.clone())),
        })
    }
}
