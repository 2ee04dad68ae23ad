//! Policies and their bindings, compiled and cached.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use k3_api::strategy::Tree;
use serde_json::Value;

use super::super::{
    configuration_cache::{ConfigurationCache, ResourceIndex},
    failure_policy::FailurePolicy,
    matching::MatchCriteria,
    resource,
};
use crate::cache::WatchCaches;

const GROUP: &str = "admissionregistration.k8s.io";

/// A policy of a sort, with what its expressions were compiled to.
#[derive(Debug)]
pub(super) struct CompiledPolicy<E> {
    pub name: String,
    pub spec: Value,
    pub criteria: MatchCriteria,
    /// Whether `failurePolicy` is `Ignore`.
    pub failure_policy: FailurePolicy,
    compiled: OnceLock<E>,
}

/// Where a policy applies, with which parameters, and what follows.
#[derive(Debug)]
pub(super) struct PolicyBinding {
    pub name: String,
    pub policy: String,
    /// `None`: wherever the policy does.
    pub criteria: Option<MatchCriteria>,
    pub reference: Value,
    pub actions: Vec<String>,
}

/// All policies of a sort, by name.
#[derive(Debug)]
pub(super) struct PolicySet<E> {
    all: Vec<Arc<CompiledPolicy<E>>>,
    index: ResourceIndex,
}

/// A policy with its bindings.
pub(super) type BoundPolicy<E> = (Arc<CompiledPolicy<E>>, Vec<Arc<PolicyBinding>>);

/// Bindings by the name of their policy, ordered by their own.
type BindingsByPolicy = HashMap<String, Vec<Arc<PolicyBinding>>>;

/// The policies and bindings of a sort.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go NewPolicySource, calculatePolicyData
pub(super) struct PolicySource<E> {
    /// The names of the resources.
    policy_plural: &'static str,
    binding_plural: &'static str,
    policies: ConfigurationCache<CompiledPolicy<E>, PolicySet<E>>,
    bindings: ConfigurationCache<PolicyBinding, BindingsByPolicy>,
}

// --- CompiledPolicy ---

impl<E> CompiledPolicy<E> {
    fn read(policy: &Value) -> Self {
        let spec = policy.at("spec");
        CompiledPolicy {
            name: policy.at("metadata").text("name").to_owned(),
            criteria: MatchCriteria::of_resources(spec.at("matchConstraints")),
            failure_policy: FailurePolicy::read(spec),
            spec: spec.clone(),
            compiled: OnceLock::new(),
        }
    }

    /// What its expressions compile to; found out once.
    pub(super) fn compiled(&self, compile: impl FnOnce(&CompiledPolicy<E>) -> E) -> &E {
        self.compiled.get_or_init(|| compile(self))
    }
}

// --- PolicyBinding ---

impl PolicyBinding {
    fn read(binding: &Value) -> Self {
        let spec = binding.at("spec");
        PolicyBinding {
            name: binding.at("metadata").text("name").to_owned(),
            policy: spec.text("policyName").to_owned(),
            criteria: spec
                .has("matchResources")
                .then(|| MatchCriteria::of_resources(spec.at("matchResources"))),
            reference: spec.at("paramRef").clone(),
            actions: spec.texts("validationActions").map(str::to_owned).collect(),
        }
    }
}

// --- PolicySource ---

impl<E> PolicySource<E> {
    /// The policies of two resources.
    pub(super) fn new(policy_plural: &'static str, binding_plural: &'static str) -> Self {
        PolicySource {
            policy_plural,
            binding_plural,
            policies: ConfigurationCache::default(),
            bindings: ConfigurationCache::default(),
        }
    }

    /// The policies that may be about a resource and are bound, with their bindings.
    pub(super) fn of(&self, plural: &str, caches: &WatchCaches) -> Vec<BoundPolicy<E>> {
        let policies = self.policies.get(
            &resource(GROUP, self.policy_plural, caches),
            CompiledPolicy::read,
            |all| {
                let index = ResourceIndex::new(all.iter().map(|policy| policy.criteria.resources()));
                PolicySet { all, index }
            },
        );
        let positions = policies.index.of(plural);
        if positions.is_empty() {
            return Vec::new();
        }
        let bindings = self.bindings.get(
            &resource(GROUP, self.binding_plural, caches),
            PolicyBinding::read,
            |all| {
                let mut bindings = BindingsByPolicy::new();
                for binding in all {
                    bindings.entry(binding.policy.clone()).or_default().push(binding);
                }
                bindings
            },
        );
        let bound = positions.iter().filter_map(|position| {
            let policy = &policies.all[*position];
            Some((Arc::clone(policy), bindings.get(&policy.name)?.clone()))
        });
        bound.collect()
    }
}
