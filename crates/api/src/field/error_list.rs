//! A bounded list of the field errors of one object (`field.ErrorList`).

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go ErrorList

use std::{collections::HashSet, ops::Deref, ops::DerefMut, vec};

use super::Error;
use crate::limits::MAX_COLLECTED_BYTES;

/// What is wrong with an object, in the order it is reported.
///
/// Errors beyond [`MAX_COLLECTED_BYTES`] bytes are counted and not kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorList {
    kept: Vec<Error>,
    /// Bytes of the texts of those kept.
    bytes: usize,
    omitted: usize,
}

// --- ErrorList ---

impl ErrorList {
    /// No errors.
    pub const fn new() -> Self {
        Self {
            kept: Vec::new(),
            bytes: 0,
            omitted: 0,
        }
    }

    /// Adds an error.
    pub fn push(&mut self, error: Error) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        self.bytes += error.size();
        self.kept.push(error);
    }

    /// Adds copies of errors.
    pub fn extend_from_slice(&mut self, errors: &[Error]) {
        for error in errors {
            if self.is_full() {
                self.omitted += 1;
            } else {
                self.push(error.clone());
            }
        }
    }

    /// Moves all errors of another list here.
    pub fn append(&mut self, other: &mut Self) {
        self.omitted += std::mem::take(&mut other.omitted);
        other.bytes = 0;
        self.extend(other.kept.drain(..));
    }

    /// Puts errors before those there are.
    pub fn prepend(&mut self, first: ErrorList) {
        let mut all = first;
        all.append(self);
        *self = all;
    }

    /// How many errors there are, be they kept or not.
    pub fn len(&self) -> usize {
        self.kept.len() + self.omitted
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many errors are not kept.
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// Whether another error would only be counted.
    pub fn is_full(&self) -> bool {
        self.bytes > MAX_COLLECTED_BYTES
    }

    /// Forgets all errors.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Keeps the errors that a rule accepts.
    pub fn retain(&mut self, accept: impl FnMut(&Error) -> bool) {
        self.kept.retain(accept);
    }

    /// The same errors, each once.
    #[must_use]
    pub fn without_repetitions(&self) -> Self {
        let mut seen = HashSet::with_capacity(self.kept.len());
        let mut once: Self = self
            .kept
            .iter()
            .filter(|error| seen.insert(*error))
            .cloned()
            .collect();
        once.omitted += self.omitted;
        once
    }
}

impl Deref for ErrorList {
    type Target = [Error];

    fn deref(&self) -> &[Error] {
        &self.kept
    }
}

impl DerefMut for ErrorList {
    fn deref_mut(&mut self) -> &mut [Error] {
        &mut self.kept
    }
}

impl Extend<Error> for ErrorList {
    fn extend<I: IntoIterator<Item = Error>>(&mut self, errors: I) {
        for error in errors {
            self.push(error);
        }
    }
}

impl FromIterator<Error> for ErrorList {
    fn from_iter<I: IntoIterator<Item = Error>>(errors: I) -> Self {
        let mut all = Self::new();
        all.extend(errors);
        all
    }
}

impl From<Vec<Error>> for ErrorList {
    fn from(errors: Vec<Error>) -> Self {
        errors.into_iter().collect()
    }
}

impl IntoIterator for ErrorList {
    type Item = Error;
    type IntoIter = vec::IntoIter<Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.into_iter()
    }
}

impl<'e> IntoIterator for &'e ErrorList {
    type Item = &'e Error;
    type IntoIter = std::slice::Iter<'e, Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Path;

    #[test]
    fn counts_what_it_does_not_keep() {
        let path = Path::new("spec");
        let mut errors = ErrorList::new();
        for _ in 0..1000 {
            errors.push(Error::invalid(&path, "x".repeat(1024), ""));
        }
        assert_eq!(errors.len(), 1000);
        assert!(errors.is_full() && errors.omitted() > 400, "{}", errors.omitted());
        let once = errors.without_repetitions();
        assert_eq!(once.iter().count(), 1);
        assert_eq!(once.omitted(), errors.omitted());
    }
}
