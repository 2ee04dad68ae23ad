//! Uniqueness of list items: `x-kubernetes-list-type: set` and `map`.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go ValidateListSetsAndMaps, validateListSet, validateListMap

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::node::{Node, SchemaFlag};
use crate::{
    field::{Error, Path},
    strategy::ErrorList,
};

/// Which items of the lists in a value are there more than once.
pub(crate) fn validate(value: &Value, node: &Node, at: &Path<'_>, errors: &mut ErrorList) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(property) = node.property(name) {
                    validate(value, property, &at.child(name), errors);
                } else if let Some(node) = node.field(name) {
                    validate(value, node, &at.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            if node.has_flag(SchemaFlag::Set) {
                for index in repeated(items.iter().map(key_text)) {
                    errors.push(Error::duplicate(&at.index(index), &items[index]));
                }
            } else if !node.keys().is_empty() {
                map(items, node.keys(), at, errors);
            }
            if let Some(node) = node.items() {
                for (index, item) in items.iter().enumerate() {
                    validate(item, node, &at.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn map(items: &[Value], keys: &[String], at: &Path<'_>, errors: &mut ErrorList) {
    let other = |item: &Value| !item.is_null() && !item.is_object();
    if let Some(index) = items.iter().position(other) {
        let detail = "must be an object for an array of list-type map";
        errors.push(Error::invalid(&at.index(index), &items[index], detail));
        return;
    }
    let named: Vec<Value> = items.iter().map(|item| keys_of(item, keys)).collect();
    for index in repeated(named.iter().map(key_text)) {
        errors.push(Error::duplicate(&at.index(index), &named[index]));
    }
}

/// What identifies an item: the fields with these names that it has.
pub(super) fn keys_of(item: &Value, keys: &[String]) -> Value {
    let found: Map<_, _> = keys
        .iter()
        .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
        .collect();
    Value::Object(found)
}

/// A text that is the same for equal values only: numbers are distinguished from texts, and 1 from 1.0.
pub(super) fn key_text(value: &Value) -> String {
    value.to_string()
}

/// Where values stand for the second time. What is there more often is reported once.
fn repeated(values: impl ExactSizeIterator<Item = String>) -> Vec<usize> {
    if values.len() <= 1 {
        return Vec::new();
    }
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(values.len());
    let mut second = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value).or_default();
        *times += 1;
        if *times == 2 {
            second.push(index);
        }
    }
    second
}
