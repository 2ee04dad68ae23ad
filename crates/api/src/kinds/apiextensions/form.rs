//! A definition in the form in which it is judged: what all versions have in common stands beside them.

use serde_json::Value;

use crate::strategy::{Tree, TreeMut};

/// The fields of a version that stand beside the versions if all have the same.
const SHARED: [&str; 4] = [
    "schema",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
];

/// A definition in that form.
pub(super) struct Form<'d> {
    /// The spec as it was sent.
    pub(super) spec: &'d Value,
    /// What all versions have in common.
    pub(super) common: Parts<'d>,
    /// The versions.
    pub(super) versions: Vec<Version<'d>>,
}

/// A version.
pub(super) struct Version<'d> {
    /// As it was sent.
    pub(super) whole: &'d Value,
    /// What it has for itself alone.
    pub(super) own: Parts<'d>,
}

/// What versions may share; `null` where it stands elsewhere or nowhere.
#[derive(Clone, Copy)]
pub(super) struct Parts<'d> {
    /// The holder of the schema.
    pub(super) schema: &'d Value,
    /// Status and scale.
    pub(super) subresources: &'d Value,
    /// The columns of tables.
    pub(super) columns: &'d Value,
    /// The fields that lists can be narrowed by.
    pub(super) selectable: &'d Value,
}

// --- Form ---

impl<'d> Form<'d> {
    /// The form of a spec.
    pub(super) fn of(spec: &'d Value) -> Self {
        let versions = spec.items("versions");
        let nothing = Value::Null.at("");
        let shared = |name: &str| {
            let first = versions.first().map_or(nothing, |version| version.at(name));
            versions
                .iter()
                .all(|version| version.at(name) == first)
                .then_some(first)
        };
        let [schema, subresources, columns, selectable] = SHARED.map(shared);
        let own = |version: &'d Value, name: &str, shared: Option<&Value>| {
            if shared.is_some() {
                nothing
            } else {
                version.at(name)
            }
        };
        Form {
            spec,
            common: Parts {
                schema: schema.unwrap_or(nothing),
                subresources: subresources.unwrap_or(nothing),
                columns: columns.unwrap_or(nothing),
                selectable: selectable.unwrap_or(nothing),
            },
            versions: versions
                .iter()
                .map(|version| Version {
                    whole: version,
                    own: Parts {
                        schema: own(version, SHARED[0], schema),
                        subresources: own(version, SHARED[1], subresources),
                        columns: own(version, SHARED[2], columns),
                        selectable: own(version, SHARED[3], selectable),
                    },
                })
                .collect(),
        }
    }

    /// The versions as an error shows them: what they share is not there.
    pub(super) fn shown_versions(&self) -> Value {
        if !self.spec.has("versions") {
            return Value::Null;
        }
        self.versions
            .iter()
            .map(|version| {
                let mut whole = version.whole.clone();
                let own = version.own;
                let parts = [own.schema, own.subresources, own.columns, own.selectable];
                for (name, part) in SHARED.iter().zip(parts) {
                    if part.is_null() {
                        whole.remove(name);
                    }
                }
                whole
            })
            .collect()
    }

    /// Whether the status of this version has a path of its own.
    pub(super) fn has_status(&self, version: &Version<'_>) -> bool {
        let each = self
            .versions
            .iter()
            .any(|version| !version.own.subresources.is_null());
        let parts = if each { version.own } else { self.common };
        parts.has_status()
    }

    /// Whether that is so for any version.
    pub(super) fn has_any_status(&self) -> bool {
        self.common.has_status() || self.versions.iter().any(|version| version.own.has_status())
    }

    /// All schemas, each once.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &'d Value> {
        let own = self.versions.iter().map(|version| version.own.schema);
        [self.common.schema]
            .into_iter()
            .chain(own)
            .map(|holder| holder.at("openAPIV3Schema"))
            .filter(|schema| !schema.is_null())
    }
}

// --- Parts ---

impl Parts<'_> {
    fn has_status(&self) -> bool {
        self.subresources.has("status")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_all_versions_have_in_common_stands_beside_them() {
        let spec = json!({"versions": [
            {"name": "a", "schema": {"x": 1}, "subresources": {"status": {}}},
            {"name": "b", "schema": {"x": 1}},
        ]});
        let form = Form::of(&spec);
        assert_eq!(form.common.schema, &json!({"x": 1}));
        assert!(form.common.subresources.is_null() && form.has_any_status());
        assert!(form.has_status(&form.versions[0]) && !form.has_status(&form.versions[1]));
        assert_eq!(
            form.shown_versions(),
            json!([{"name": "a", "subresources": {"status": {}}}, {"name": "b"}])
        );
    }
}
