//! Telling what is wrong with a text: an error for each fault of it.

use crate::{
    field::{Error, Path, Shown},
    name::{self, Faults},
    rules::Errors,
};

/// Tells each fault of a text.
pub(in crate::kinds) fn tell(errors: &mut Errors, at: &Path<'_>, text: &str, faults: Faults) {
    tell_shown(errors, at, || text.into(), faults);
}

/// Tells each fault of something that is shown in its own way.
pub(in crate::kinds) fn tell_shown(
    errors: &mut Errors,
    at: &Path<'_>,
    shown: impl Fn() -> Shown,
    faults: Faults,
) {
    errors.extend(faults.into_iter().map(|fault| Error::invalid(at, shown(), fault)));
}

/// What is wrong with a text that must be one of a few. An empty one is missing.
pub(in crate::kinds) fn one_of(errors: &mut Errors, at: &Path<'_>, text: &str, words: &[&str]) {
    if text.is_empty() {
        errors.push(Error::required(at, ""));
    } else if !words.contains(&text) {
        errors.push(Error::not_supported(at, super::printed::word(text), words));
    }
}

/// What is wrong with the protocol of a port.
pub(in crate::kinds) fn protocol(errors: &mut Errors, at: &Path<'_>, text: &str) {
    one_of(errors, at, text, &["SCTP", "TCP", "UDP"]);
}

/// What is wrong with the number of a port.
pub(in crate::kinds) fn port_number(errors: &mut Errors, at: &Path<'_>, number: i64) {
    tell_shown(errors, at, || number.into(), name::port_number(number));
}
