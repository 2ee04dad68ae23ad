//! Converts `managedFields` between an object and its `scale` subresource.
//!
//! A scale is another kind with one field to set; who owns the replicas of the one owns those of the other.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go ToSubresource, ToParent

use std::borrow::Cow;

use serde_json::Value;

use super::{
    entry::{Entry, ManagedFieldsError},
    record::{self, Record},
};
use crate::apply::{FieldSet, PathElement};

/// Where a kind keeps its replicas, version by version; nowhere in a version without a scale.
pub type ReplicasPaths<'p> = &'p [(&'p str, &'p [&'p str])];

/// Why a record could not be carried over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleHandlerError {
    /// One of the records cannot be read.
    #[error("{0}")]
    Record(#[from] ManagedFieldsError),
    /// The version of the request has no scale.
    #[error("no path of replicas in {0}")]
    NoPath(String),
}

const SCALE_VERSION: &str = "autoscaling/v1";
const SCALE_REPLICAS: &[&str] = &["spec", "replicas"];

/// Gives a scale the record of who owns the replicas of its object.
pub fn scale_to_subresource(
    parent: &Value,
    scale: &mut Value,
    paths: ReplicasPaths<'_>,
) -> Result<(), ScaleHandlerError> {
    let mut shown = Record::default();
    for entry in Record::of(parent)?.entries {
        let Some(path) = path_of(paths, &entry.api_version) else {
            continue;
        };
        if entry.set.contains(&elements(path)) {
            let set = FieldSet::of_fields(&[SCALE_REPLICAS]);
            // The identity stays as it is: it is what the entry is found by on the way back.
            shown.entries.push(Entry {
                set,
                source: None,
                api_version: Cow::Borrowed(SCALE_VERSION),
                ..entry
            });
        }
    }
    let shown = shown.encode();
    record::set(scale, shown);
    Ok(())
}

/// Gives an object the record of who owns its replicas after its scale was written.
pub fn scale_to_parent(
    scale: &Value,
    parent: &mut Value,
    api_version: &str,
    paths: ReplicasPaths<'_>,
) -> Result<(), ScaleHandlerError> {
    let own_path = path_of(paths, api_version)
        .filter(|path| !path.is_empty())
        .ok_or_else(|| ScaleHandlerError::NoPath(api_version.to_owned()))?;
    let mut scaled = Record::of(scale)?;
    let mut kept = Record::default();
    for mut entry in Record::of(parent)?.entries {
        let Some(path) = path_of(paths, &entry.api_version) else {
            continue;
        };
        if entry.set.contains(&elements(path)) {
            let there = scaled
                .entries
                .iter()
                .position(|other| same_manager(other, &entry));
            if let Some(at) = there {
                scaled.entries.swap_remove(at);
            } else {
                entry.set.remove(&FieldSet::of_fields(&[path]));
                entry.source = None;
            }
        }
        if !entry.set.is_empty() {
            kept.entries.push(entry);
        }
    }
    for entry in scaled.entries {
        if entry.set.contains(&elements(SCALE_REPLICAS)) {
            let set = FieldSet::of_fields(&[own_path]);
            // Without a time: upstream looks for it on the wrong side and finds none.
            kept.entries.push(Entry {
                set,
                source: None,
                api_version: Cow::Borrowed(api_version),
                time: None,
                ..entry
            });
        }
    }
    let kept = kept.encode();
    record::set(parent, kept);
    Ok(())
}

fn path_of<'p>(paths: ReplicasPaths<'p>, api_version: &str) -> Option<&'p [&'p str]> {
    paths
        .iter()
        .find(|(version, _)| *version == api_version)
        .map(|(_, path)| *path)
}

fn elements<'p>(path: &[&'p str]) -> Vec<PathElement<'p>> {
    path.iter().map(|name| PathElement::field(*name)).collect()
}

/// Compares two managers without their API version: a scale and its object have different ones.
fn same_manager(left: &Entry<'_>, right: &Entry<'_>) -> bool {
    let left = &left.identity;
    let right = &right.identity;
    left.manager == right.manager
        && left.operation == right.operation
        && left.subresource == right.subresource
}
