//! The internal form of a definition: fields that are equal in all versions are hoisted to the top level, and errors name them
//! there.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/conversion.go Convert_v1_CustomResourceDefinitionSpec_To_apiextensions_CustomResourceDefinitionSpec

use serde_json::Value;

use crate::strategy::{Tree, TreeMut};

/// Fields of a version that are hoisted if all versions have the same.
const HOISTED_FIELDS: [&str; 4] = [
    "schema",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
];

/// Whether objects have a status subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusSubresource {
    Enabled,
    Disabled,
}

pub(super) struct InternalSpec<'d> {
    /// The spec as it was sent.
    pub(super) spec: &'d Value,
    /// The hoisted fields.
    pub(super) common: HoistedFields<'d>,
    /// The versions.
    pub(super) versions: Vec<StoredVersion<'d>>,
}

pub(super) struct StoredVersion<'d> {
    /// As it was sent.
    pub(super) whole: &'d Value,
    /// Its own fields that are not hoisted.
    pub(super) own: HoistedFields<'d>,
}

/// Fields that can be hoisted; `null` where absent or elsewhere.
#[derive(Clone, Copy)]
pub(super) struct HoistedFields<'d> {
    /// `schema`
    pub(super) schema: &'d Value,
    /// `subresources`
    pub(super) subresources: &'d Value,
    /// `additionalPrinterColumns`
    pub(super) columns: &'d Value,
    /// `selectableFields`
    pub(super) selectable: &'d Value,
}

// --- Form ---

impl<'d> InternalSpec<'d> {
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/conversion.go Convert_v1_CustomResourceDefinitionSpec_To_apiextensions_CustomResourceDefinitionSpec
    pub(super) fn from_spec(spec: &'d Value) -> Self {
        let versions = spec.items("versions");
        let nothing = Value::Null.at("");
        let shared = |name: &str| {
            let first = versions.first().map_or(nothing, |version| version.at(name));
            versions
                .iter()
                .all(|version| version.at(name) == first)
                .then_some(first)
        };
        let [schema, subresources, columns, selectable] = HOISTED_FIELDS.map(shared);
        let own = |version: &'d Value, name: &str, shared: Option<&Value>| {
            if shared.is_some() {
                nothing
            } else {
                version.at(name)
            }
        };
        InternalSpec {
            spec,
            common: HoistedFields {
                schema: schema.unwrap_or(nothing),
                subresources: subresources.unwrap_or(nothing),
                columns: columns.unwrap_or(nothing),
                selectable: selectable.unwrap_or(nothing),
            },
            versions: versions
                .iter()
                .map(|version| StoredVersion {
                    whole: version,
                    own: HoistedFields {
                        schema: own(version, HOISTED_FIELDS[0], schema),
                        subresources: own(version, HOISTED_FIELDS[1], subresources),
                        columns: own(version, HOISTED_FIELDS[2], columns),
                        selectable: own(version, HOISTED_FIELDS[3], selectable),
                    },
                })
                .collect(),
        }
    }

    /// The versions as errors show them: without the hoisted fields.
    pub(super) fn versions_value(&self) -> Value {
        if !self.spec.has("versions") {
            return Value::Null;
        }
        self.versions
            .iter()
            .map(|version| {
                let mut whole = version.whole.clone();
                let own = version.own;
                let fields = [own.schema, own.subresources, own.columns, own.selectable];
                for (name, part) in HOISTED_FIELDS.iter().zip(fields) {
                    if part.is_null() {
                        whole.remove(name);
                    }
                }
                whole
            })
            .collect()
    }

    /// Whether this version has the status subresource.
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go hasStatusEnabled
    pub(super) fn status_of_version(&self, version: &StoredVersion<'_>) -> StatusSubresource {
        let each = self
            .versions
            .iter()
            .any(|version| !version.own.subresources.is_null());
        let fields = if each { version.own } else { self.common };
        fields.status()
    }

    /// Whether any version has it.
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go hasAnyStatusEnabled
    pub(super) fn status_of_any_version(&self) -> StatusSubresource {
        let own = self.versions.iter().map(|version| version.own.status());
        own.fold(self.common.status(), StatusSubresource::or)
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

// --- StatusSubresource ---

impl StatusSubresource {
    fn or(self, other: Self) -> Self {
        match self {
            Self::Enabled => self,
            Self::Disabled => other,
        }
    }
}

// --- Parts ---

impl HoistedFields<'_> {
    fn status(&self) -> StatusSubresource {
        if self.subresources.has("status") {
            StatusSubresource::Enabled
        } else {
            StatusSubresource::Disabled
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hoists_fields_that_all_versions_share() {
        let spec = json!({"versions": [
            {"name": "a", "schema": {"x": 1}, "subresources": {"status": {}}},
            {"name": "b", "schema": {"x": 1}},
        ]});
        let form = InternalSpec::from_spec(&spec);
        assert_eq!(form.common.schema, &json!({"x": 1}));
        assert!(form.common.subresources.is_null());
        assert_eq!(form.status_of_any_version(), StatusSubresource::Enabled);
        assert_eq!(
            form.status_of_version(&form.versions[0]),
            StatusSubresource::Enabled
        );
        assert_eq!(
            form.status_of_version(&form.versions[1]),
            StatusSubresource::Disabled
        );
        assert_eq!(
            form.versions_value(),
            json!([{"name": "a", "subresources": {"status": {}}}, {"name": "b"}])
        );
    }
}
