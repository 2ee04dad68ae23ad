//! One entry of `x-kubernetes-validations`.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go ruleMessageOrDefault

use serde_json::Value;

use crate::{kinds::resolve_field_path, strategy::Tree};

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The expression that must hold.
    pub(crate) expression: Box<str>,
    message: Box<str>,
    /// An expression that gives the message; may be empty.
    pub(crate) message_expression: Box<str>,
    pub(super) reason: FieldErrorReason,
    /// The field below the value that is reported to be wrong; empty if it is the value itself.
    pub(super) field_path: Box<str>,
    /// Whether the old value may be missing.
    pub(super) optional_old: bool,
}

/// What sort of error it is when a rule does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldErrorReason {
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
                "FieldValueForbidden" => FieldErrorReason::Forbidden,
                "FieldValueRequired" => FieldErrorReason::Required,
                "FieldValueDuplicate" => FieldErrorReason::Duplicate,
                _ => FieldErrorReason::Invalid,
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

    /// What is reported when it does not hold.
    pub(super) fn failure_message(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.expression.trim())
        } else {
            self.message.trim().to_owned()
        }
    }
}
