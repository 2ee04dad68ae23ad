//! What the stored definition has already, and whether what is new in a definition can be used.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinition;
// a stored pattern stays accepted here one by one, while upstream skips all structural checks of a schema that is not structural

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
};

use serde_json::Value;

use super::{form::Form, regexp, schema};
use crate::{custom::Pattern, rules::Tree};

/// About how large the expressions of one definition may be that are compiled to see whether they can be. Of those beyond
/// it only the syntax is checked.
const MAX_WEIGHT: usize = 1_000_000;

/// What the stored definition has.
#[derive(Debug, Default)]
pub(super) struct Stored<'o> {
    /// Its regular expressions: whatever they are, they stay.
    patterns: HashSet<String>,
    /// Its versions by name; of several, the first.
    versions: HashMap<&'o str, &'o Value>,
    /// About how large the new expressions are that were compiled.
    weight: Cell<usize>,
}

// --- Stored ---

impl<'o> Stored<'o> {
    /// What the spec of the stored definition has, if there is one.
    pub(super) fn of(old: Option<&'o Value>) -> Self {
        let mut stored = Stored::default();
        let Some(old) = old else {
            return stored;
        };
        for whole in Form::of(old).schemas() {
            schema::any(whole, &mut |one| {
                let pattern = one.text("pattern");
                if !pattern.is_empty() {
                    stored.patterns.insert(pattern.to_owned());
                }
                false
            });
        }
        for version in old.items("versions") {
            stored.versions.entry(version.text("name")).or_insert(version);
        }
        stored
    }

    /// Its version of a name.
    pub(super) fn version(&self, name: &str) -> Option<&'o Value> {
        self.versions.get(name).copied()
    }

    /// What is wrong with an expression: it is not one, or it is too large to be used.
    pub(super) fn pattern_fault(&self, pattern: &str) -> Option<String> {
        if pattern.is_empty() || self.patterns.contains(pattern) {
            return None;
        }
        let weight = match regexp::weigh(pattern) {
            Ok(weight) => self.weight.get().saturating_add(weight),
            Err(msg) => return Some(msg),
        };
        self.weight.set(weight);
        if weight > MAX_WEIGHT {
            return None;
        }
        Pattern::new(pattern).err()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refuses_what_does_not_compile() {
        let stored = Stored::default();
        assert_eq!(stored.pattern_fault("^[a-z]+$"), None);
        assert_eq!(
            stored.pattern_fault("a(b").unwrap(),
            "error parsing regexp: missing closing ): `a(b`"
        );
        let large = r"(\pL{500}){2}".repeat(8);
        let msg = stored.pattern_fault(&large).unwrap();
        assert!(
            msg.starts_with("error parsing regexp: expression too large: "),
            "{msg}"
        );
    }

    #[test]
    fn keeps_what_is_stored() {
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}});
        let old = json!({"versions": [{"name": "v1", "schema": schema}]});
        let stored = Stored::of(Some(&old));
        assert_eq!(stored.pattern_fault("("), None);
        assert!(stored.pattern_fault("((").is_some());
    }
}
