//! What the stored definition already has, and whether new patterns can be used.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinition;
// a stored pattern stays accepted here one by one, while upstream skips all structural checks of a schema that is not structural

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
};

use serde_json::Value;

use super::{internal_spec::InternalSpec, regexp, schema};
use crate::{custom::Pattern, strategy::Tree};

/// Limit of the size of new expressions of one definition that are compiled to check them. Beyond it only their syntax is
/// checked.
const MAX_COMPILED_SIZE: usize = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct StoredDefinition<'o> {
    /// Its patterns, which are tolerated whatever they are.
    patterns: HashSet<String>,
    /// Its versions by name; of several, the first.
    versions: HashMap<&'o str, &'o Value>,
    /// Approximate size of the new expressions that were compiled.
    weight: Cell<usize>,
}

// --- Stored ---

impl<'o> StoredDefinition<'o> {
    pub(super) fn from_old(old: Option<&'o Value>) -> Self {
        let mut stored = StoredDefinition::default();
        let Some(old) = old else {
            return stored;
        };
        for whole in InternalSpec::from_spec(old).schemas() {
            schema::schema_has(whole, &mut |level| {
                let pattern = level.text("pattern");
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

    pub(super) fn version(&self, name: &str) -> Option<&'o Value> {
        self.versions.get(name).copied()
    }

    /// Why a pattern is invalid: its syntax, or it is too large to be compiled.
    pub(super) fn invalid_pattern_message(&self, pattern: &str) -> Option<String> {
        if pattern.is_empty() || self.patterns.contains(pattern) {
            return None;
        }
        let weight = match regexp::compiled_size(pattern) {
            Ok(weight) => self.weight.get().saturating_add(weight),
            Err(error) => return Some(error.to_string()),
        };
        self.weight.set(weight);
        if weight > MAX_COMPILED_SIZE {
            return None;
        }
        Pattern::new(pattern).err().map(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejects_patterns_that_do_not_compile() {
        let stored = StoredDefinition::default();
        assert_eq!(stored.invalid_pattern_message("^[a-z]+$"), None);
        assert_eq!(
            stored.invalid_pattern_message("a(b").unwrap(),
            "error parsing regexp: missing closing ): `a(b`"
        );
        let large = r"(\pL{500}){2}".repeat(8);
        let msg = stored.invalid_pattern_message(&large).unwrap();
        assert!(
            msg.starts_with("error parsing regexp: expression too large: "),
            "{msg}"
        );
    }

    #[test]
    fn tolerates_stored_patterns() {
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}});
        let old = json!({"versions": [{"name": "v1", "schema": schema}]});
        let stored = StoredDefinition::from_old(Some(&old));
        assert_eq!(stored.invalid_pattern_message("("), None);
        assert!(stored.invalid_pattern_message("((").is_some());
    }
}
