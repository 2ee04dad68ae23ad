//! Applies `$setElementOrder`.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go validatePatchWithSetOrderList

use serde_json::Value;

use super::{DIRECTIVE, Error, Object, PatchCost, SET_ELEMENT_ORDER, items_of, list, without_directives};
use crate::{go, type_schema::Shape};

/// Merges and orders each list an order is given for, and takes both out of the patch.
pub(super) fn apply(
    object: &mut Object,
    patch: &mut Object,
    shape: Shape<'_>,
    cost: &PatchCost,
) -> Result<(), Error> {
    let directives: Vec<_> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ELEMENT_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let order = patch.remove(&directive).unwrap_or_default();
        let Value::Array(order) = order else {
            return Err(Error::not_a_list(&order));
        };
        let name = directive
            .strip_prefix(SET_ELEMENT_ORDER)
            .and_then(|rest| rest.strip_prefix('/'));
        let name = name.ok_or(Error::SetElementOrder)?;
        apply_one(object, patch, (name, &order), shape, cost)?;
    }
    Ok(())
}

fn apply_one(
    object: &mut Object,
    patch: &mut Object,
    (name, order): (&str, &[Value]),
    shape: Shape<'_>,
    cost: &PatchCost,
) -> Result<(), Error> {
    let live = take_list(object, name)?;
    let changes = take_list(patch, name)?;
    cost.take(order.len() + live.as_ref().map_or(0, Vec::len))?;
    let (items, plan) = items_of(shape, name)?;
    let key = plan.merge_key;
    follows(changes.as_deref().unwrap_or_default(), order, key)?;
    let first = list::identities(order, key)?;
    let second = list::identities(live.as_deref().unwrap_or_default(), key)?;
    // An order for a list that is not there is of no matter; one for an empty list is an error.
    if live.is_some() || changes.is_some() {
        list::item_type(
            live.as_deref().unwrap_or_default(),
            changes.as_deref().unwrap_or_default(),
        )?;
    }
    let merged = match (live, changes) {
        (None, None) => return Ok(()),
        (Some(live), None) => live,
        (None, Some(changes)) => changes.into_iter().filter_map(without_directives).collect(),
        (Some(live), Some(changes)) if plan.merge => list::merge(live, changes, items, plan, cost)?,
        (Some(_), Some(changes)) => changes,
    };
    object.insert(
        name.to_owned(),
        Value::Array(list::arrange(merged, &first, &second, key)?),
    );
    Ok(())
}

/// Checks that the items of the patch stand in the order, one after another.
fn follows(list: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Error> {
    if list.is_empty() || order.is_empty() {
        return Ok(());
    }
    if key.is_some()
        && let Some(scalar) = list.iter().find(|item| !item.is_object())
    {
        return Err(Error::not_an_object(scalar));
    }
    let mut rest = order.iter();
    'items: for item in list.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        for listed in rest.by_ref() {
            if same_item(item, listed, key)? {
                continue 'items;
            }
        }
        return Err(Error::OrderMismatch {
            list: go::plain_list(list),
            order: go::plain_list(order),
        });
    }
    Ok(())
}

fn same_item(item: &Value, listed: &Value, key: Option<&str>) -> Result<bool, Error> {
    let Some(key) = key else { return Ok(item == listed) };
    let id = |value: &Value| {
        let map = value.as_object().ok_or_else(|| Error::not_an_object(value))?;
        map.get(key).cloned().ok_or_else(|| Error::no_merge_key(map, key))
    };
    Ok(id(item)? == id(listed)?)
}

fn take_list(object: &mut Object, name: &str) -> Result<Option<Vec<Value>>, Error> {
    match object.remove(name) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(Error::not_a_list(&other)),
    }
}
