//! A kind of objects as the server offers it: what it is called, and where it is.

use serde_json::Value;

/// A resource of one group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Empty for the first group, that of pods.
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

// --- Resource ---

impl Resource {
    /// `v1`, `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// What kubectl prints before a name: `pod`, `deployment.apps`.
    pub(crate) fn noun(&self) -> String {
        let kind = self.kind.to_lowercase();
        if self.group.is_empty() {
            kind
        } else {
            format!("{kind}.{}", self.group)
        }
    }

    /// What the server prints before a name: `pods`, `deployments.apps`.
    pub(crate) fn plural_noun(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Whether somebody means it by a word in lower case.
    pub(crate) fn is_called(&self, word: &str) -> bool {
        self.plural == word
            || self.singular == word
            || self.short_names.iter().any(|name| name == word)
            || self.kind.eq_ignore_ascii_case(word)
    }

    /// Where all its objects are, or those of a namespace.
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

    /// Where one object is.
    pub(crate) fn object(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{}", self.collection(namespace), escape(name))
    }

    /// An object of a list with what lists leave out.
    pub(crate) fn completed(&self, mut object: Value) -> Value {
        if let Some(fields) = object.as_object_mut() {
            fields
                .entry("apiVersion")
                .or_insert_with(|| self.api_version().into());
            fields.entry("kind").or_insert_with(|| self.kind.clone().into());
        }
        object
    }
}

/// A part of a path or of a query, as it is sent.
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

/// A path with a query; pairs without a value are left out.
pub(crate) fn with_query(path: &str, pairs: &[(&str, Option<String>)]) -> String {
    let mut whole = path.to_owned();
    for (name, value) in pairs {
        if let Some(value) = value {
            whole.push(if whole.contains('?') { '&' } else { '?' });
            whole.push_str(name);
            whole.push('=');
            whole.push_str(&escape(value));
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        let deployments = Resource {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            plural: "deployments".to_owned(),
            is_namespaced: true,
            ..Resource::default()
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
