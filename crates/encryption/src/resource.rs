//! Resources, as configurations name them and as keys of the store have them.

use std::fmt;

/// Where all objects are stored: `/registry/<group>/<resource>/`.
const ROOT: &str = "/registry/";
/// The name of the core group in keys.
const CORE: &str = "core";

/// A resource of a group; `*` matches all.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupResource {
    pub(crate) group: String,
    pub(crate) resource: String,
}

// --- GroupResource ---

impl GroupResource {
    pub(crate) fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }

    /// Parses the form of a configuration: `resource.group`, `*.group`, `*.` or `*.*`.
    // upstream: staging/src/k8s.io/apimachinery/pkg/runtime/schema/group_version.go ParseGroupResource
    pub(crate) fn parse(text: &str) -> Self {
        match text.split_once('.') {
            Some((resource, group)) => Self::new(group, resource),
            None => Self::new("", text),
        }
    }

    /// All resources of all groups.
    pub(crate) fn everything() -> Self {
        Self::new("*", "*")
    }

    /// All resources of its group.
    pub(crate) fn whole_group(&self) -> Self {
        Self::new(self.group.clone(), "*")
    }

    /// The resource of the object with a key; `None` if the key is not one of an object.
    pub(crate) fn of_key(key: &str) -> Option<Self> {
        let mut parts = key.strip_prefix(ROOT)?.splitn(3, '/');
        let group = parts.next().filter(|group| *group != "-")?;
        let resource = parts.next()?;
        parts.next()?;
        let group = if group == CORE { "" } else { group };
        Some(Self::new(group, resource))
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.group.as_str(), self.resource.as_str()) {
            ("", "*") => f.write_str("*."),
            ("", resource) => f.write_str(resource),
            (group, resource) => write!(f, "{resource}.{group}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_forms_of_a_configuration_and_writes_them_again() {
        for text in ["secrets", "pandas.awesome.bears.example", "*.apps", "*.", "*.*"] {
            assert_eq!(GroupResource::parse(text).to_string(), text);
        }
    }

    #[test]
    fn finds_the_resource_of_a_key() {
        let of = |key| GroupResource::of_key(key).map(|found| found.to_string());
        assert_eq!(of("/registry/core/secrets/default/a").as_deref(), Some("secrets"));
        assert_eq!(
            of("/registry/apps/deployments/x/y").as_deref(),
            Some("deployments.apps")
        );
        assert_eq!(of("/registry/core/nodes/n").as_deref(), Some("nodes"));
        assert_eq!(of("/registry/-/nodeports/3"), None);
        assert_eq!(of("/k3/keys"), None);
        assert_eq!(of("/registry/core/secrets"), None);
    }
}
