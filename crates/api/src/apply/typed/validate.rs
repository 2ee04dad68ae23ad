//! Validates a value against its type.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/validate.go validatingObjectWalker, validateScalar

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use super::{Atom, ListAtom, MapAtom, TypeError, TypeErrors, TypeRef};
use crate::{
    apply::PathElement,
    go,
    limits::{self, MAX_COLLECTED_BYTES, MAX_PATH_BYTES, MAX_VALUE_BYTES},
    type_schema::{ScalarKind, TypeSchema},
};

/// Whether the items of associative lists may be there more than once.
///
/// Clients may not apply duplicates, but objects written otherwise may hold them: to refuse those would
/// keep everybody from ever changing them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicatePolicy {
    /// They may.
    Allowed,
    /// They may not.
    Refused,
}

/// Checks a value against its type; all that is wrong is reported at once.
pub fn validate(
    value: &Value,
    typed: &dyn TypeSchema,
    duplicates: DuplicatePolicy,
) -> Result<(), TypeErrors> {
    let mut walk = ValidationWalk {
        duplicates,
        path: Vec::new(),
        errors: TypeErrors::default(),
        bytes: 0,
    };
    walk.value(value, TypeRef::Known(typed));
    if walk.errors.0.is_empty() {
        Ok(())
    } else {
        Err(walk.errors)
    }
}

struct ValidationWalk<'a> {
    duplicates: DuplicatePolicy,
    path: Vec<PathElement<'a>>,
    errors: TypeErrors,
    /// Bytes of the errors so far.
    bytes: usize,
}

/// Steps, one after the other.
struct ElementsDisplay<'e, 'a>(&'e [PathElement<'a>]);

impl fmt::Display for ElementsDisplay<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

// --- ValidationWalk ---

impl<'a> ValidationWalk<'a> {
    fn value(&mut self, value: &'a Value, typed: TypeRef<'a>) {
        match typed.resolve(value) {
            Atom::Scalar(kind) => self.scalar(value, kind),
            Atom::List(list) => match value {
                Value::Array(items) => self.list(items, list),
                Value::Null => {}
                other => self.error(wrapped("expected list, got ", other)),
            },
            Atom::Map(map) => match value {
                Value::Object(fields) => self.map(fields.iter(), map),
                Value::Null => {}
                other => self.error(wrapped("expected map, got ", other)),
            },
        }
    }

    fn scalar(&mut self, value: &Value, kind: ScalarKind) {
        let fits = match (kind, value) {
            (_, Value::Null)
            | (ScalarKind::Number, Value::Number(_))
            | (ScalarKind::String, Value::String(_))
            | (ScalarKind::Boolean, Value::Bool(_)) => true,
            (ScalarKind::Any, value) => !value.is_object() && !value.is_array(),
            _ => false,
        };
        if fits {
            return;
        }
        self.error(match kind {
            ScalarKind::Number => format!("expected numeric (int or float), got {}", go::type_name(value)),
            ScalarKind::String => {
                let mut message = String::from("expected string, got &value.valueUnstructured{Value:");
                go::push_source(&mut message, value);
                message.push('}');
                message
            }
            ScalarKind::Boolean => wrapped("expected boolean, got ", value),
            ScalarKind::Any => wrapped("expected any scalar, got ", value),
        });
    }

    fn list(&mut self, items: &'a [Value], list: ListAtom<'a>) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let element = if list.is_atomic() {
                PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
            } else {
                match list.element(item) {
                    Ok(element) => element,
                    Err(bad) => return self.error(format!("element {index}: {bad}")),
                }
            };
            let rejects_duplicates = !list.is_atomic() && self.duplicates == DuplicatePolicy::Refused;
            if rejects_duplicates && !seen.insert(element.clone()) {
                self.error(format!(
                    "duplicate entries for key {}",
                    limits::display(&element, MAX_PATH_BYTES)
                ));
            }
            self.below(element, item, list.items);
        }
    }

    fn map(&mut self, fields: impl Iterator<Item = (&'a String, &'a Value)>, map: MapAtom<'a>) {
        for (name, value) in fields {
            let typed = map.child(name);
            self.path.push(PathElement::field(name.as_str()));
            if matches!(typed, TypeRef::Undeclared) {
                self.error("field not declared in schema".to_owned());
                self.path.pop();
                return;
            }
            self.value(value, typed);
            self.path.pop();
        }
    }

    fn below(&mut self, element: PathElement<'a>, value: &'a Value, typed: TypeRef<'a>) {
        self.path.push(element);
        self.value(value, typed);
        self.path.pop();
    }

    fn error(&mut self, message: String) {
        // The answer shows fewer.
        if self.bytes > MAX_COLLECTED_BYTES {
            return;
        }
        let path = limits::display(&ElementsDisplay(&self.path), MAX_PATH_BYTES);
        let message = limits::cut_owned(message, MAX_VALUE_BYTES);
        self.bytes += path.len() + message.len();
        self.errors.0.push(TypeError { path, message });
    }
}

/// Values stand in messages as the pointer they were behind.
fn wrapped(message: &str, value: &Value) -> String {
    let mut out = format!("{message}&{{");
    go::push_plain(&mut out, value);
    out.push('}');
    out
}
