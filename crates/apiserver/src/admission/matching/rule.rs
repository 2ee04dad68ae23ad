//! Matches a request with a rule (operations, groups, versions, resources, scope).

use k3_api::strategy::Tree;
use serde_json::Value;

use super::super::versioned_attributes::{VersionedAttributes, VersionedResource};

/// A rule: all of it must hold.
#[derive(Clone, Debug)]
pub(super) struct MatchRule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resources, each with a part; either may be a star.
    resources: Vec<(String, String)>,
    scope: MatchScope,
    /// Empty for all.
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchScope {
    All,
    Namespaced,
    Cluster,
    /// Nothing is meant.
    None,
}

const STAR: &str = "*";

fn has(items: &[String], wanted: &str) -> bool {
    items.iter().any(|item| item == STAR || item == wanted)
}

// --- MatchRule ---

impl MatchRule {
    pub(super) fn read(rule: &Value) -> Self {
        let texts = |name: &str| rule.texts(name).map(str::to_owned).collect();
        MatchRule {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: rule
                .texts("resources")
                .map(|resource| {
                    let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
                    (resource.to_owned(), part.to_owned())
                })
                .collect(),
            scope: match rule.text("scope") {
                "" | "*" => MatchScope::All,
                "Namespaced" => MatchScope::Namespaced,
                "Cluster" => MatchScope::Cluster,
                _ => MatchScope::None,
            },
            names: texts("resourceNames"),
        }
    }

    /// Whether it is about a request, if that were for this form.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules/rules.go Matches
    pub(super) fn matches(&self, subject: &VersionedAttributes<'_>, form: &VersionedResource) -> bool {
        let kind = &form.whole;
        self.is_in_scope(subject, form)
            && has(&self.operations, subject.operation.word())
            && has(&self.groups, &kind.group)
            && has(&self.versions, &kind.version)
            && self.resources.iter().any(|(resource, part)| {
                (resource == STAR || *resource == *kind.plural)
                    && (part == STAR || part == subject.subresource)
            })
            && (self.names.is_empty() || self.names.contains(&subject.name))
    }

    fn is_in_scope(&self, subject: &VersionedAttributes<'_>, form: &VersionedResource) -> bool {
        // A request for a namespace has its name as its namespace, and is cluster-wide all the same.
        let is_namespace = form.whole.group.is_empty() && &*form.whole.plural == "namespaces";
        let is_cluster_wide = is_namespace || subject.namespace.is_empty();
        match self.scope {
            MatchScope::All => true,
            MatchScope::Namespaced => !is_cluster_wide,
            MatchScope::Cluster => is_cluster_wide,
            MatchScope::None => false,
        }
    }

    /// The resources it names; a star is all.
    pub(super) fn resources(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(|(resource, _)| resource.as_str())
    }
}
