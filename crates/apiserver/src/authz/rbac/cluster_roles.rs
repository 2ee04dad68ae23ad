//! Cluster roles, including aggregated ones.
//!
//! A controller writes the aggregated rules into the role. Decisions need not wait for it: aggregation is applied here at once.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use k3_api::{
    selector::label::{self, Selector},
    strategy::Tree,
};
use serde_json::Value;

use super::PolicyRule;

/// The cluster roles, by name.
#[derive(Default)]
pub(super) struct ClusterRoles(HashMap<Box<str>, ClusterRole>);

struct ClusterRole {
    /// The rules it has itself.
    own: Arc<[PolicyRule]>,
    labels: BTreeMap<String, String>,
    /// Which others it gathers: all that one of these selects.
    gathers: Box<[Selector]>,
    /// The rules it has, and those it gathers.
    all: Arc<[PolicyRule]>,
}

// --- ClusterRoles ---

impl ClusterRoles {
    /// The rules of a role, with those it gathers as of the last [`ClusterRoles::settle`].
    pub(super) fn get(&self, name: &str) -> Option<&Arc<[PolicyRule]>> {
        self.0.get(name).map(|role| &role.all)
    }

    /// Updates a cluster role after a change.
    pub(super) fn change(&mut self, name: &str, role: Option<&Value>) {
        match role {
            Some(role) => self.0.insert(name.into(), ClusterRole::read(role)),
            None => self.0.remove(name),
        };
    }

    /// Aggregates the rules again. Called when roles have changed.
    pub(super) fn settle(&mut self) {
        let gathering = self.0.iter().filter(|(_, role)| !role.gathers.is_empty());
        let gathered: Vec<_> = gathering
            .map(|(name, _)| {
                let mut rules = Vec::new();
                self.gather(name, &mut HashSet::new(), &mut rules);
                (name.clone(), rules)
            })
            .collect();
        for (name, rules) in gathered {
            if let Some(role) = self.0.get_mut(&name) {
                role.all = rules.into();
            }
        }
    }

    /// Collects the rules of a role and of those it gathers, which may gather others, and even it.
    // upstream: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go syncClusterRole
    fn gather<'r>(&'r self, name: &'r str, seen: &mut HashSet<&'r str>, rules: &mut Vec<PolicyRule>) {
        let Some(role) = self.0.get(name).filter(|_| seen.insert(name)) else {
            return;
        };
        rules.extend(role.own.iter().cloned());
        if role.gathers.is_empty() {
            return;
        }
        let is_gathered = |other: &ClusterRole| {
            role.gathers
                .iter()
                .any(|selector| selector.matches(&other.labels))
        };
        let mut names: Vec<_> = self.0.iter().filter(|(_, other)| is_gathered(other)).collect();
        names.sort_by_key(|(name, _)| *name);
        for (name, _) in names {
            self.gather(name, seen, rules);
        }
    }
}

// --- ClusterRole ---

impl ClusterRole {
    fn read(role: &Value) -> Self {
        let own: Arc<[PolicyRule]> = PolicyRule::all_of(role).into();
        let selectors = role.at("aggregationRule").items("clusterRoleSelectors").iter();
        let labels = role.at("metadata").entries("labels");
        ClusterRole {
            all: Arc::clone(&own),
            own,
            labels: labels
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect(),
            // One that cannot be read was refused when it was written.
            gathers: selectors
                .filter_map(|selector| label::from_object(Some(selector)).ok())
                .collect(),
        }
    }
}
