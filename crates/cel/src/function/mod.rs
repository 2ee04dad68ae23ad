//! What functions do.
//!
//! A function looks at its arguments when it is called, since what is declared as anything turns out then. Costs are
//! counted elsewhere, from arguments and result.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/environment/base.go MustBaseEnvSet

mod address_syntax;
mod authorization;
pub(crate) mod convert;
pub(crate) mod format;
mod format_error;
pub(crate) mod formatting;
mod lists;
pub(crate) mod network;
mod operators;
mod optional;
mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
pub(crate) mod signature;
mod text;
pub(crate) mod time;
pub(crate) mod url;

use crate::{
    error::EvalError,
    value::{Result, Value},
};

/// What a function does with its arguments; a method's first is what it is called on.
pub(crate) type Implementation = for<'a> fn(&str, &[Value<'a>]) -> Result<'a>;

/// What the function of a name does.
pub(crate) fn implementation(name: &str) -> Option<Implementation> {
    [
        operators::implementation,
        convert::implementation,
        text::implementation,
        lists::implementation,
        optional::implementation,
        time::implementation,
        regex::implementation,
        url::implementation,
        network::implementation,
        quantity::implementation,
        semver::implementation,
        format::implementation,
        authorization::implementation,
    ]
    .into_iter()
    .find_map(|library: fn(&str) -> Option<Implementation>| library(name))
}

/// A function was called with what it is not for.
pub(crate) fn no_overload<T>(name: &str, args: &[Value<'_>]) -> std::result::Result<T, EvalError> {
    let types: Vec<String> = args.iter().map(Value::type_name).collect();
    Err(EvalError::new(format!(
        "no such overload: {name}({})",
        types.join(", ")
    )))
}
