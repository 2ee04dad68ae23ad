//! An API resource as the server's discovery describes it: its names and its paths.

use serde_json::Value;

/// A resource of one group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ApiResource {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) verbs: Vec<String>,
    pub(crate) subresources: Vec<String>,
    pub(crate) is_namespaced: bool,
}

// --- ApiResource ---

impl ApiResource {
    /// `v1`, `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The prefix of a name in kubectl's output: `pod`, `deployment.apps`.
    pub(crate) fn noun(&self) -> String {
        let kind = self.kind.to_lowercase();
        if self.group.is_empty() {
            kind
        } else {
            format!("{kind}.{}", self.group)
        }
    }

    /// The resource with its group, as the server writes it: `pods`, `deployments.apps`.
    pub(crate) fn plural_noun(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Whether a lower-case word is the plural, singular, short name or kind.
    pub(crate) fn has_name(&self, word: &str) -> bool {
        self.plural == word
            || self.singular == word
            || self.short_names.iter().any(|name| name == word)
            || self.kind.eq_ignore_ascii_case(word)
    }

    /// The path of the collection, in one namespace or in all.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => format!("{root}/namespaces/{}/{}", escape(namespace), self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }

    /// The path of one object.
    pub(crate) fn object(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{}", self.collection(namespace), escape(name))
    }

    /// Adds `apiVersion` and `kind`, which items of a list lack.
    pub(crate) fn with_type_meta(&self, mut object: Value) -> Value {
        if let Some(fields) = object.as_object_mut() {
            fields
                .entry("apiVersion")
                .or_insert_with(|| self.api_version().into());
            fields.entry("kind").or_insert_with(|| self.kind.clone().into());
        }
        object
    }
}

/// Percent-encodes a path segment or a query value.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(byte.into());
        } else {
            escaped.push('%');
            escaped.extend([byte >> 4, byte & 15].map(|digit| {
                char::from_digit(digit.into(), 16)
                    .expect("four bits are a digit")
                    .to_ascii_uppercase()
            }));
        }
    }
    escaped
}

/// Appends a query to a path; pairs without a value are left out.
pub(crate) fn with_query(path: &str, pairs: &[(&str, Option<String>)]) -> String {
    let mut url = path.to_owned();
    for (name, value) in pairs {
        if let Some(value) = value {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(name);
            url.push('=');
            url.push_str(&escape(value));
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_api_paths() {
        let deployments = ApiResource {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            plural: "deployments".to_owned(),
            is_namespaced: true,
            ..ApiResource::default()
        };
        assert_eq!(deployments.collection(None), "/apis/apps/v1/deployments");
        assert_eq!(
            deployments.object(Some("a"), "b/c"),
            "/apis/apps/v1/namespaces/a/deployments/b%2Fc"
        );
        let query = [
            ("a", None),
            ("b", Some("x=1,y".to_owned())),
            ("c", Some(String::new())),
        ];
        assert_eq!(with_query("/p", &query), "/p?b=x%3D1%2Cy&c=");
    }
}
