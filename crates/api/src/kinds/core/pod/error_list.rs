//! Shorthands that add field errors to a list.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go Invalid, Required, Forbidden, Duplicate, NotSupported

use crate::{
    field::{BadValue, Error, Path},
    name::ErrorMessages,
    strategy::ErrorList,
};

pub(super) trait ErrorListExt {
    fn invalid(&mut self, at: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>);

    fn required(&mut self, at: &Path<'_>, detail: &str);

    fn forbidden(&mut self, at: &Path<'_>, detail: impl Into<String>);

    fn duplicate(&mut self, at: &Path<'_>, value: &str);

    fn unsupported(&mut self, at: &Path<'_>, value: &str, supported: &[&str]);

    /// An `Invalid` error for each message of a name check.
    fn push_invalid(&mut self, at: &Path<'_>, value: &str, msgs: ErrorMessages);

    /// A required value that must be one of `supported`.
    fn required_enum(&mut self, at: &Path<'_>, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(at, "");
        } else if !supported.contains(&value) {
            self.unsupported(at, value, supported);
        }
    }

    /// An integer that must not be negative.
    fn not_negative(&mut self, at: &Path<'_>, number: i64) {
        if number < 0 {
            self.invalid(at, number, "must be greater than or equal to 0");
        }
    }
}

impl ErrorListExt for ErrorList {
    fn invalid(&mut self, at: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>) {
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

    fn push_invalid(&mut self, at: &Path<'_>, value: &str, msgs: ErrorMessages) {
        self.extend(msgs.into_iter().map(|msg| Error::invalid(at, value, msg)));
    }
}
