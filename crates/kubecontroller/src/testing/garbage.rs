//! Garbage collection of dependents whose owners are all deleted.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{
    cluster::FakeCluster,
    resource::{RequestTarget, ResourceId},
    writes::{DeleteOptions, ObjectWrite},
};
use crate::Key;

/// Deletes orphaned dependents until there are none. Finalizers delay their deletion as usual.
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
        let existing: BTreeSet<&str> = everything
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
                    .all(|owner| owner["uid"].as_str().is_none_or(|uid| !existing.contains(uid)))
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
            let target = RequestTarget {
                id: id.clone(),
                version: String::new(),
                namespace: key.namespace().to_owned(),
                name: Some(key.name().to_owned()),
                subresource: None,
            };
            let write = ObjectWrite {
                target: &target,
                now,
                dry: false,
            };
            // Cannot fail: the object exists, and the cluster is locked.
            let _ = write.delete(cluster, key, &DeleteOptions::default());
        }
    }
}
