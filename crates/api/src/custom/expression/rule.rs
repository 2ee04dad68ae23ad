//! A rule as a schema writes it.

use serde_json::Value;

use crate::{kinds::resolve_field_path, strategy::Tree};

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The expression that must hold.
    pub(crate) expression: Box<str>,
    message: Box<str>,
    /// An expression that tells what is wrong; may be empty.
    pub(crate) message_expression: Box<str>,
    pub(super) reason: Reason,
    /// The field below the value that is told to be wrong; empty if it is the value itself.
    pub(super) field_path: Box<str>,
    /// Whether the old value may be missing.
    pub(super) optional_old: bool,
}

/// What sort of fault it is when a rule does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A value is out of bounds.
    #[default]
    Invalid,
    /// A value may not stand here.
    Forbidden,
    /// A value must be given.
    Required,
    /// A value must be there once only.
    Duplicate,
}

// --- Rule ---

impl Rule {
    /// The rules of a schema.
    pub(crate) fn read_all(schema: &Value) -> Box<[Rule]> {
        let rules = schema.items("x-kubernetes-validations");
        rules.iter().map(|rule| Rule::read(rule, schema)).collect()
    }

    fn read(rule: &Value, schema: &Value) -> Rule {
        let path = rule.text("fieldPath");
        Rule {
            expression: rule.text("rule").into(),
            message: rule.text("message").into(),
            message_expression: rule.text("messageExpression").into(),
            reason: match rule.text("reason") {
                "FieldValueForbidden" => Reason::Forbidden,
                "FieldValueRequired" => Reason::Required,
                "FieldValueDuplicate" => Reason::Duplicate,
                _ => Reason::Invalid,
            },
            field_path: resolve_field_path(path, schema).unwrap_or_default().into(),
            optional_old: rule.flag("optionalOldSelf"),
        }
    }

    /// What names it in messages.
    pub(super) fn named(&self) -> &str {
        match self.message.trim() {
            "" => self.expression.trim(),
            message => message,
        }
    }

    /// What is told when it does not hold.
    pub(super) fn told(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.expression.trim())
        } else {
            self.message.trim().to_owned()
        }
    }
}
