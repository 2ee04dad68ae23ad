//! CEL expressions of webhooks and admission policies.
//!
//! Every expression is compiled when it is written, against the variables in scope, and must have one of the expected types.

use k3_cel::{CompileError, DeclType, Environment, ObjectDeclType, Program, Type, is_reserved};

use crate::{
    admission::{self, OptionalVariableDeclarations},
    field::{Error, Path},
    strategy::ErrorList,
};

/// What an expression is compiled against, and the types that it may have.
#[derive(Clone, Debug)]
pub(super) struct ExpressionChecker {
    environment: Environment,
    /// The expected types; any if empty.
    expected_types: &'static [&'static str],
}

impl ExpressionChecker {
    /// Checks expressions over the variables of `reach` with one of these types.
    pub(super) fn new(reach: OptionalVariableDeclarations, expected_types: &'static [&'static str]) -> Self {
        ExpressionChecker {
            environment: admission::environment(reach),
            expected_types,
        }
    }

    /// Adds the variables that a policy declares, as far as their types are known.
    pub(super) fn with_variables(mut self, variables: &ObjectDeclType) -> Self {
        self.environment = self
            .environment
            .variable("variables", DeclType::object(variables.clone()));
        self
    }

    /// Adds the types of ApplyConfiguration and JSONPatch mutations.
    pub(super) fn with_patch_types(mut self) -> Self {
        self.environment = self.environment.with_patch_types();
        self
    }

    /// Validates an expression and returns its type. `missing` is the message if it is empty.
    // upstream: pkg/apis/admissionregistration/validation/validation.go validateCELCondition
    pub(super) fn validate(
        &self,
        text: &str,
        missing: &str,
        at: &Path<'_>,
        errors: &mut ErrorList,
    ) -> Option<Type> {
        self.validate_trimmed(text, text, missing, at, errors)
    }

    /// The same, where errors show the expression as it was written, with surrounding space.
    pub(super) fn validate_trimmed(
        &self,
        text: &str,
        source: &str,
        missing: &str,
        at: &Path<'_>,
        errors: &mut ErrorList,
    ) -> Option<Type> {
        if text.trim().is_empty() {
            errors.push(Error::required(at, missing));
            return None;
        }
        match self.compile(text) {
            Ok(ty) => return Some(ty),
            Err(ExpressionError::Invalid(detail)) => errors.push(Error::invalid(at, source, detail)),
            Err(ExpressionError::Internal(detail)) => errors.push(Error::internal(at, detail)),
        }
        None
    }

    fn compile(&self, text: &str) -> Result<Type, ExpressionError> {
        let failed = |error: CompileError| {
            if error.is_instantiation() {
                ExpressionError::Internal(format!("program instantiation failed: {error}"))
            } else {
                ExpressionError::Invalid(format!("compilation failed: {error}"))
            }
        };
        let program = Program::compile(&self.environment, text).map_err(failed)?;
        let actual = program.result_type().to_string();
        if self.expected_types.is_empty() || self.expected_types.contains(&actual.as_str()) {
            return Ok(program.result_type().clone());
        }
        Err(ExpressionError::Invalid(match self.expected_types {
            [one] => format!("must evaluate to {one} but got {actual}"),
            several => format!("must evaluate to one of [{}] but got {actual}", several.join(" ")),
        }))
    }
}

enum ExpressionError {
    Invalid(String),
    Internal(String),
}

/// Whether a text can be the name of a variable.
// upstream: pkg/apis/admissionregistration/validation/validation.go isCELIdentifier
pub(super) fn is_cel_identifier(text: &str) -> bool {
    let is_identifier_byte = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.bytes().all(is_identifier_byte)
        && !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && !is_reserved(text)
}

// upstream: pkg/apis/admissionregistration/validation/validation.go hasNewlines
pub(super) fn has_newlines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_reserved_identifiers() {
        assert!(is_cel_identifier("_a1") && is_cel_identifier("For"));
        assert!(
            !is_cel_identifier("1a")
                && !is_cel_identifier("a-b")
                && !is_cel_identifier("for")
                && !is_cel_identifier("")
        );
    }
}
