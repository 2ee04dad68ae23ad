//! Policies with their bindings, as they are configured.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use k3_api::strategy::Tree;
use serde_json::Value;

use super::super::{
    configured::{Configured, Index},
    matching::Criteria,
    resource,
};
use crate::cache::Caches;

const GROUP: &str = "admissionregistration.k8s.io";

/// A policy of a sort, with what its expressions were compiled to.
#[derive(Debug)]
pub(super) struct Policy<E> {
    pub name: String,
    pub spec: Value,
    pub criteria: Criteria,
    /// Whether a request goes on when the policy cannot be applied.
    pub fails_open: bool,
    compiled: OnceLock<E>,
}

/// Where a policy applies, with which parameters, and what follows.
#[derive(Debug)]
pub(super) struct Binding {
    pub name: String,
    pub policy: String,
    /// `None`: wherever the policy does.
    pub criteria: Option<Criteria>,
    pub reference: Value,
    pub actions: Vec<String>,
}

/// All policies of a sort, by name.
#[derive(Debug)]
pub(super) struct Policies<E> {
    all: Vec<Arc<Policy<E>>>,
    index: Index,
}

/// A policy with its bindings.
pub(super) type Bound<E> = (Arc<Policy<E>>, Vec<Arc<Binding>>);

/// Bindings by the name of their policy, ordered by their own.
type Bindings = HashMap<String, Vec<Arc<Binding>>>;

/// The policies and bindings of a sort.
pub(super) struct Source<E> {
    /// The names of the resources.
    policy_plural: &'static str,
    binding_plural: &'static str,
    policies: Configured<Policy<E>, Policies<E>>,
    bindings: Configured<Binding, Bindings>,
}

// --- Policy ---

impl<E> Policy<E> {
    fn read(policy: &Value) -> Self {
        let spec = policy.at("spec");
        Policy {
            name: policy.at("metadata").text("name").to_owned(),
            criteria: Criteria::of_resources(spec.at("matchConstraints")),
            fails_open: spec.text("failurePolicy") == "Ignore",
            spec: spec.clone(),
            compiled: OnceLock::new(),
        }
    }

    /// What its expressions compile to; found out once.
    pub(super) fn compiled(&self, compile: impl FnOnce(&Policy<E>) -> E) -> &E {
        self.compiled.get_or_init(|| compile(self))
    }
}

// --- Binding ---

impl Binding {
    fn read(binding: &Value) -> Self {
        let spec = binding.at("spec");
        Binding {
            name: binding.at("metadata").text("name").to_owned(),
            policy: spec.text("policyName").to_owned(),
            criteria: spec
                .has("matchResources")
                .then(|| Criteria::of_resources(spec.at("matchResources"))),
            reference: spec.at("paramRef").clone(),
            actions: spec.texts("validationActions").map(str::to_owned).collect(),
        }
    }
}

// --- Source ---

impl<E> Source<E> {
    /// The policies of two resources.
    pub(super) fn new(policy_plural: &'static str, binding_plural: &'static str) -> Self {
        Source {
            policy_plural,
            binding_plural,
            policies: Configured::default(),
            bindings: Configured::default(),
        }
    }

    /// The policies that may be about a resource and are bound, with their bindings.
    pub(super) fn of(&self, plural: &str, caches: &Caches) -> Vec<Bound<E>> {
        let policies = self.policies.get(
            &resource(GROUP, self.policy_plural, caches),
            Policy::read,
            |all| {
                let index = Index::new(all.iter().map(|policy| policy.criteria.resources()));
                Policies { all, index }
            },
        );
        let positions = policies.index.of(plural);
        if positions.is_empty() {
            return Vec::new();
        }
        let bindings = self.bindings.get(
            &resource(GROUP, self.binding_plural, caches),
            Binding::read,
            |all| {
                let mut bindings = Bindings::new();
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
