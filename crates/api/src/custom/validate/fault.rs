//! What is wrong with a value, as schemas tell it, and how that becomes an error of a field.

use serde_json::Value;

use super::place::Place;
use crate::{
    field::{BadValue, Error, ErrorKind, Path},
    go,
    limits::{self, MAX_PATH_BYTES, MAX_VALUE_BYTES},
    strategy::ErrorList,
};

/// More faults than that are not collected: an object could have a million.
const MOST: usize = 1000;

/// Something that is wrong with a value.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// Where; `None` if only the text tells.
    place: Option<String>,
    kind: Told,
    value: BadValue,
    /// The words of the schema.
    text: String,
}

/// How a fault is told.
#[derive(Clone, Debug)]
enum Told {
    Type,
    Required,
    Options(Vec<String>),
    TooLong(usize),
    TooMany(usize),
    Invalid,
}

/// What judging a value came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Judgement {
    pub(super) faults: Vec<Fault>,
    /// How many checks were passed: of several schemas that do not fit, the one that comes nearest tells why.
    pub(super) passed: usize,
}

// --- Judgement ---

impl Judgement {
    pub(super) fn passed(passed: usize) -> Self {
        Judgement {
            faults: Vec::new(),
            passed,
        }
    }

    pub(super) fn is_good(&self) -> bool {
        self.faults.is_empty()
    }

    pub(super) fn merge(&mut self, other: Judgement) {
        self.passed += other.passed;
        for fault in other.faults {
            self.add(fault);
        }
    }

    /// Whether another fault would not be kept.
    pub(super) fn is_full(&self) -> bool {
        self.faults.len() >= MOST
    }

    pub(super) fn add(&mut self, fault: Fault) {
        if !self.is_full() {
            self.faults.push(fault);
        }
    }

    /// The errors of the fields, each once. `at`: where the value stands that was judged.
    pub(super) fn into_errors(self, at: &Path<'_>, errors: &mut ErrorList) {
        let mut told = std::collections::HashSet::new();
        for fault in self.faults {
            if told.insert(fault.text.clone()) {
                errors.push(fault.into_error(at));
            }
        }
    }
}

// --- Fault ---

impl Fault {
    /// About how many bytes its texts take.
    pub(super) fn size(&self) -> usize {
        self.text.len() + self.value.size()
    }

    /// A value of another type.
    pub(super) fn wrong_type(place: &Place<'_>, wanted: &str, found: &str) -> Self {
        let place = limits::display(place, MAX_PATH_BYTES);
        Fault {
            text: format!("{place} in body must be of type {wanted}: {}", go::quote(found)),
            place: Some(place),
            kind: Told::Type,
            value: BadValue::from(found),
        }
    }

    /// A field that must be there.
    pub(super) fn required(place: &Place<'_>) -> Self {
        let place = limits::display(place, MAX_PATH_BYTES);
        Fault {
            text: format!("{place} in body is required"),
            place: Some(place),
            kind: Told::Required,
            value: BadValue::Omitted,
        }
    }

    /// A value that is none of those that may be.
    pub(super) fn not_an_option(place: &Place<'_>, value: &Value, options: &[Value]) -> Self {
        let place = limits::display(place, MAX_PATH_BYTES);
        let mut names = Vec::new();
        let mut bytes = 0;
        for option in options {
            let name = match option {
                Value::String(text) => text.clone(),
                other => go::json(other),
            };
            bytes += name.len();
            names.push(name);
            if bytes > MAX_VALUE_BYTES {
                break;
            }
        }
        Fault {
            text: format!(
                "{place} in body should be one of {}",
                go::plain_list(&options[..names.len()])
            ),
            place: Some(place),
            kind: Told::Options(names),
            value: BadValue::from(value),
        }
    }

    /// A text of too many characters.
    pub(super) fn too_long(place: &Place<'_>, most: i64) -> Self {
        let place = limits::display(place, MAX_PATH_BYTES);
        Fault {
            text: format!("{place} in body should be at most {most} chars long"),
            place: Some(place),
            kind: Told::TooLong(usize::try_from(most).unwrap_or_default()),
            value: BadValue::Omitted,
        }
    }

    /// A list or an object of too many parts.
    pub(super) fn too_many(place: &Place<'_>, what: &str, actual: usize, most: i64) -> Self {
        let place = limits::display(place, MAX_PATH_BYTES);
        Fault {
            text: format!("{place} in body should have at most {most} {what}"),
            place: Some(place),
            kind: Told::TooMany(usize::try_from(most).unwrap_or_default()),
            value: BadValue::from(actual),
        }
    }

    /// Anything else: what is wrong, after the place and ` in body `.
    pub(super) fn invalid(place: &Place<'_>, value: impl Into<BadValue>, words: &str) -> Self {
        let place = limits::display(place, MAX_PATH_BYTES);
        Fault {
            text: format!("{place} in body {words}"),
            place: Some(place),
            kind: Told::Invalid,
            value: value.into(),
        }
    }

    /// The same in words that name the place themselves.
    pub(super) fn said(place: &Place<'_>, value: impl Into<BadValue>, text: String) -> Self {
        Fault {
            place: Some(limits::display(place, MAX_PATH_BYTES)),
            kind: Told::Invalid,
            value: value.into(),
            text,
        }
    }

    /// A fault that no field is named for.
    pub(super) fn nowhere(text: String) -> Self {
        Fault {
            place: None,
            kind: Told::Invalid,
            value: BadValue::from(""),
            text,
        }
    }

    fn into_error(self, at: &Path<'_>) -> Error {
        let field = self.field(at);
        let mut error = Error::invalid(at, self.value, self.text);
        error.field = field;
        match self.kind {
            Told::Invalid => {}
            Told::Type => error.kind = ErrorKind::TypeInvalid,
            Told::Required => {
                error.kind = ErrorKind::Required;
                error.detail.clear();
                error.value = BadValue::from("");
            }
            Told::Options(options) => {
                let value = error.value;
                let mut supported = Error::not_supported(at, value, options);
                supported.field = error.field;
                return supported;
            }
            Told::TooLong(most) => {
                let mut long = Error::too_long(at, most);
                long.field = error.field;
                return long;
            }
            Told::TooMany(most) => {
                let mut many = Error::too_many(at, None, most);
                many.value = error.value;
                many.field = error.field;
                return many;
            }
        }
        error
    }

    fn field(&self, at: &Path<'_>) -> String {
        let place = self.place.as_deref().unwrap_or_default();
        let place = place.strip_prefix('.').unwrap_or(place);
        if place.is_empty() {
            limits::display(at, MAX_PATH_BYTES)
        } else {
            limits::display(&at.child(place), MAX_PATH_BYTES)
        }
    }
}
