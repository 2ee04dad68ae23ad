//! APIServices of the built-in groups and versions.

use serde_json::{Value, json};

use super::table::{entries, malformed, number};

const TABLE: &str = include_str!("versions.table");

/// An API service for each version of each group. Their status states that they are available, since they were created:
/// their rules see to that.
pub fn api_services() -> impl Iterator<Item = Value> {
    entries(TABLE, "version").map(|entry| {
        let [group, version, group_priority, version_priority] = entry.tokens[..] else {
            malformed(&entry.tokens)
        };
        let mut spec = json!({
            "version": version,
            "groupPriorityMinimum": number(group_priority),
            "versionPriority": number(version_priority),
        });
        let group = if group == "-" { "" } else { group };
        if !group.is_empty() {
            spec["group"] = json!(group);
        }
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {
                "name": format!("{version}.{group}"),
                "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
            },
            "spec": spec,
            "status": {},
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        kinds::builtin,
        strategy::{StrategyContext, Tree, User, create},
        time::Time,
    };

    #[test]
    fn every_version_that_is_served_has_one_but_that_of_the_services_themselves() {
        let ours: BTreeSet<_> = api_services()
            .map(|service| service["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        let kinds = builtin().all().iter();
        let served: BTreeSet<_> = kinds
            .filter(|kind| kind.group != "apiregistration.k8s.io")
            .map(|kind| format!("{}.{}", kind.version, kind.group))
            .collect();
        assert_eq!(ours, served);
    }

    #[test]
    fn they_are_valid_and_available() {
        let user = User::default();
        let at = StrategyContext {
            kind: builtin()
                .kind("apiregistration.k8s.io", "v1", "APIService")
                .unwrap(),
            now: Time::parse("2026-01-02T03:04:05Z").unwrap(),
            user: &user,
        };
        for mut service in api_services() {
            assert!(create(&mut service, &at).is_ok(), "{service}");
            assert_eq!(service.at("status").items("conditions")[0]["status"], "True");
        }
    }
}
