//! Dependents go when their last owner is gone.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{
    cluster::FakeCluster,
    resource::{ResourceId, Target},
    writes::{Deletion, Write},
};
use crate::Key;

/// Deletes what has owners that are all gone, until there is none left. Finalizers hold dependents as they hold others.
pub(super) fn collect(cluster: &mut FakeCluster, now: Timestamp) {
    loop {
        let everything: Vec<(ResourceId, Key, Arc<Value>)> = cluster
            .resources()
            .flat_map(|(id, stored)| {
                stored
                    .objects
                    .iter()
                    .map(|(key, object)| (id.clone(), key.clone(), object.clone()))
            })
            .collect();
        let there: BTreeSet<&str> = everything
            .iter()
            .filter_map(|(_, _, object)| object["metadata"]["uid"].as_str())
            .collect();
        let is_orphan = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"]
                .as_array()
                .filter(|owners| !owners.is_empty());
            owners.is_some_and(|owners| {
                owners
                    .iter()
                    .all(|owner| owner["uid"].as_str().is_none_or(|uid| !there.contains(uid)))
            })
        };
        let is_terminating = |object: &Value| object["metadata"].get("deletionTimestamp").is_some();
        let orphans: Vec<_> = everything
            .iter()
            .filter(|(_, _, object)| is_orphan(object) && !is_terminating(object))
            .collect();
        if orphans.is_empty() {
            return;
        }
        for (id, key, _) in orphans {
            let target = Target {
                id: id.clone(),
                version: String::new(),
                namespace: key.namespace().to_owned(),
                name: Some(key.name().to_owned()),
                subresource: None,
            };
            let write = Write {
                target: &target,
                now,
                dry: false,
            };
            // It was there a moment ago, and the cluster is locked: this cannot fail.
            let _ = write.delete(cluster, key, &Deletion::default());
        }
    }
}
