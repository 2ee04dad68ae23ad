//! Quota scopes: which objects a ResourceQuota matches (`scopes`, `scopeSelector`).

// upstream: pkg/quota/v1/evaluator/core/pods.go MatchingScopes, IsTerminating, isBestEffort
// upstream: pkg/quota/v1/evaluator/core/persistent_volume_claims.go pvcMatchesScopeFunc

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    selector::label::{Operator, Requirement},
    strategy::Tree,
};

/// A condition of a quota.
#[derive(Debug)]
pub struct ScopeSelector {
    scope: String,
    /// What the value of the scope must be like; `None` if the operator is unknown.
    requirement: Option<Requirement>,
}

/// What conditions ask about an object. What is of a kind that no condition knows meets none.
#[derive(Debug, Default)]
pub enum ScopeAttributes {
    /// Nothing that a condition knows.
    #[default]
    None,
    /// A pod.
    Pod {
        /// Whether it is to end by itself.
        is_terminating: bool,
        /// Whether it asks for nothing.
        is_best_effort: bool,
        /// Whether it wants to be near or far from pods of other namespaces.
        crosses_namespaces: bool,
        /// The class of its priority; empty if it has none.
        priority_class: String,
    },
    /// A claim of storage.
    Claim {
        /// The classes of attributes that it has, wants, or is about to get.
        attribute_classes: BTreeSet<String>,
    },
}

// --- ScopeSelector ---

impl ScopeSelector {
    /// The conditions of a quota.
    pub fn of(spec: &Value) -> Vec<Self> {
        let plain = spec.texts("scopes").map(|scope| ScopeSelector {
            scope: scope.to_owned(),
            requirement: Some(Requirement::from_valid(scope, Operator::Exists, Vec::new())),
        });
        let expressions = spec.at("scopeSelector").items("matchExpressions").iter();
        let selected = expressions.map(|expression| {
            let scope = expression.text("scopeName");
            let values = || expression.texts("values").map(str::to_owned).collect();
            let operator = Operator::from_label_selector(expression.text("operator"));
            ScopeSelector {
                scope: scope.to_owned(),
                requirement: operator.map(|operator| Requirement::from_valid(scope, operator, values())),
            }
        });
        plain.chain(selected).collect()
    }

    /// Whether an object meets it.
    pub fn meets(&self, traits: &ScopeAttributes) -> bool {
        match traits {
            ScopeAttributes::None => false,
            ScopeAttributes::Pod {
                is_terminating,
                is_best_effort,
                crosses_namespaces,
                priority_class,
            } => match self.scope.as_str() {
                "Terminating" => *is_terminating,
                "NotTerminating" => !is_terminating,
                "BestEffort" => *is_best_effort,
                "NotBestEffort" => !is_best_effort,
                "CrossNamespacePodAffinity" => *crosses_namespaces,
                "PriorityClass" => {
                    self.selects(Some(priority_class.as_str()).filter(|class| !class.is_empty()))
                }
                _ => false,
            },
            ScopeAttributes::Claim { attribute_classes } => {
                self.scope == "VolumeAttributesClass"
                    && if attribute_classes.is_empty() {
                        self.selects(None)
                    } else {
                        attribute_classes.iter().any(|class| self.selects(Some(class)))
                    }
            }
        }
    }

    fn selects(&self, value: Option<&str>) -> bool {
        let requirement = self.requirement.as_ref();
        requirement.is_some_and(|requirement| requirement.matches_value(value))
    }
}

// --- ScopeAttributes ---

impl ScopeAttributes {
    pub(super) fn of_pod(pod: &Value) -> Self {
        let spec = pod.at("spec");
        ScopeAttributes::Pod {
            is_terminating: is_terminating(pod),
            is_best_effort: pod.at("status").text("qosClass") == "BestEffort",
            crosses_namespaces: crosses_namespaces(spec.at("affinity")),
            priority_class: spec.text("priorityClassName").to_owned(),
        }
    }

    pub(super) fn of_claim(claim: &Value) -> Self {
        let status = claim.at("status");
        let named = [
            claim.at("spec").text("volumeAttributesClassName"),
            status.text("currentVolumeAttributesClassName"),
            status
                .at("modifyVolumeStatus")
                .text("targetVolumeAttributesClassName"),
        ];
        ScopeAttributes::Claim {
            attribute_classes: named
                .into_iter()
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    }
}

/// Whether a pod is to end by itself.
pub fn is_terminating(pod: &Value) -> bool {
    pod.at("spec")
        .int("activeDeadlineSeconds")
        .is_some_and(|seconds| seconds >= 0)
}

fn crosses_namespaces(affinity: &Value) -> bool {
    let crosses = |term: &Value| !term.items("namespaces").is_empty() || term.has("namespaceSelector");
    ["podAffinity", "podAntiAffinity"].into_iter().any(|field| {
        let affinity = affinity.at(field);
        let required = affinity.items("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = affinity.items("preferredDuringSchedulingIgnoredDuringExecution");
        required.iter().any(crosses)
            || preferred
                .iter()
                .any(|weighted| crosses(weighted.at("podAffinityTerm")))
    })
}
