//! Telling what is wrong, in few words.

use crate::{
    field::{Error, Path, Shown},
    name::Faults,
    rules::Errors,
};

/// A list of errors to add to.
pub(super) trait Report {
    /// A value that is malformed or out of bounds.
    fn invalid(&mut self, at: &Path<'_>, value: impl Into<Shown>, detail: impl Into<String>);

    /// A value that must be given.
    fn required(&mut self, at: &Path<'_>, detail: &str);

    /// A value that may not stand here.
    fn forbidden(&mut self, at: &Path<'_>, detail: impl Into<String>);

    /// A value that may stand here once only.
    fn duplicate(&mut self, at: &Path<'_>, value: &str);

    /// A value that is none of the supported ones.
    fn unsupported(&mut self, at: &Path<'_>, value: &str, supported: &[&str]);

    /// A text and all that is wrong with it.
    fn push_invalid(&mut self, at: &Path<'_>, value: &str, msgs: Faults);

    /// A word that must be given and be one of some.
    fn word(&mut self, at: &Path<'_>, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(at, "");
        } else if !supported.contains(&value) {
            self.unsupported(at, value, supported);
        }
    }

    /// A number that must not be below zero.
    fn not_negative(&mut self, at: &Path<'_>, number: i64) {
        if number < 0 {
            self.invalid(at, number, "must be greater than or equal to 0");
        }
    }
}

impl Report for Errors {
    fn invalid(&mut self, at: &Path<'_>, value: impl Into<Shown>, detail: impl Into<String>) {
        self.push(Error::invalid(at, value, detail));
    }

    fn required(&mut self, at: &Path<'_>, detail: &str) {
        self.push(Error::required(at, detail));
    }

    fn forbidden(&mut self, at: &Path<'_>, detail: impl Into<String>) {
        self.push(Error::forbidden(at, detail));
    }

    fn duplicate(&mut self, at: &Path<'_>, value: &str) {
        self.push(Error::duplicate(at, value));
    }

    fn unsupported(&mut self, at: &Path<'_>, value: &str, supported: &[&str]) {
        self.push(Error::not_supported(at, value, supported));
    }

    fn push_invalid(&mut self, at: &Path<'_>, value: &str, msgs: Faults) {
        self.extend(msgs.into_iter().map(|msg| Error::invalid(at, value, msg)));
    }
}
