//! The expressions of webhooks and policies.
//!
//! Every expression is compiled when it is written, against what it may speak of, and must give what is wanted of it.

use k3_cel::{CompileError, DeclType, Environment, ObjectDeclType, Program, Type, is_reserved};

use crate::{
    admission::{self, OptionalVariableDeclarations},
    field::{Error, Path},
    strategy::ErrorList,
};

/// What an expression is compiled against, and what it must give.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    environment: Environment,
    /// The types it may give; any if there are none.
    gives: &'static [&'static str],
}

impl Wanted {
    /// An expression within reach that gives one of these types.
    pub(super) fn new(reach: OptionalVariableDeclarations, gives: &'static [&'static str]) -> Self {
        Wanted {
            environment: admission::environment(reach),
            gives,
        }
    }

    /// With the variables that a policy declares itself, as far as they are known.
    pub(super) fn with_variables(mut self, variables: &ObjectDeclType) -> Self {
        self.environment = self
            .environment
            .variable("variables", DeclType::object(variables.clone()));
        self
    }

    /// With the messages that change objects.
    pub(super) fn with_patch_types(mut self) -> Self {
        self.environment = self.environment.with_patch_types();
        self
    }

    /// What is wrong with an expression, and the type of what it gives. `missing` is told if there is none.
    pub(super) fn validate(
        &self,
        text: &str,
        missing: &str,
        at: &Path<'_>,
        errors: &mut ErrorList,
    ) -> Option<Type> {
        self.validate_trimmed(text, text, missing, at, errors)
    }

    /// The same of an expression that is shown as it was written, with the space around it.
    pub(super) fn validate_trimmed(
        &self,
        text: &str,
        shown: &str,
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
            Err(Fault::Invalid(detail)) => errors.push(Error::invalid(at, shown, detail)),
            Err(Fault::Internal(detail)) => errors.push(Error::internal(at, detail)),
        }
        None
    }

    fn compile(&self, text: &str) -> Result<Type, Fault> {
        let failed = |error: CompileError| {
            if error.is_instantiation() {
                Fault::Internal(format!("program instantiation failed: {error}"))
            } else {
                Fault::Invalid(format!("compilation failed: {error}"))
            }
        };
        let program = Program::compile(&self.environment, text).map_err(failed)?;
        let found = program.result_type().to_string();
        if self.gives.is_empty() || self.gives.contains(&found.as_str()) {
            return Ok(program.result_type().clone());
        }
        Err(Fault::Invalid(match self.gives {
            [one] => format!("must evaluate to {one} but got {found}"),
            several => format!("must evaluate to one of [{}] but got {found}", several.join(" ")),
        }))
    }
}

/// Why an expression is not accepted.
enum Fault {
    Invalid(String),
    Internal(String),
}

/// Whether a text can be the name of something in an expression.
pub(super) fn is_identifier(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.bytes().all(word)
        && !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && !is_reserved(text)
}

/// Whether a text has more than one line.
pub(super) fn has_lines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_a_word_of_the_users_own() {
        assert!(is_identifier("_a1") && is_identifier("For"));
        assert!(!is_identifier("1a") && !is_identifier("a-b") && !is_identifier("for") && !is_identifier(""));
    }
}
