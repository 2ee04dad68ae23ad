//! Merges lists by merge key.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go mergeSliceWithSpecialElements, mergeSliceWithoutSpecialElements, mergeSliceHandler

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use serde_json::Value;

use super::{DIRECTIVE, Error, Object, PatchCost, merge as merge_objects, same_type};
use crate::{
    go,
    type_schema::{Patch, Shape},
};

/// Merges the items of a patch into a list: objects by their key, scalars by their value.
///
/// Items of the patch stand in the order of the patch; others keep their position among them where they can.
pub(super) fn merge(
    list: Vec<Value>,
    patch: Vec<Value>,
    items: Shape<'_>,
    plan: Patch<'_>,
    cost: &PatchCost,
) -> Result<Vec<Value>, Error> {
    if list.is_empty() && patch.is_empty() {
        return Ok(list);
    }
    cost.take(list.len() + patch.len())?;
    if item_type(&list, &patch)?.is_object() {
        let Some(key) = plan.merge_key else {
            return Err(Error::NoPlan(kind_of(items)));
        };
        return merge_by_key(list, patch, items, key, cost);
    }
    let mut seen = HashSet::new();
    let both: Vec<_> = list
        .iter()
        .chain(&patch)
        .filter(|item| seen.insert(*item))
        .cloned()
        .collect();
    arrange(both, &patch, &list, None)
}

/// The list without the scalars a patch deletes.
pub(super) fn delete(
    list: Vec<Value>,
    patch: &[Value],
    items: Shape<'_>,
    plan: Patch<'_>,
    cost: &PatchCost,
) -> Result<Vec<Value>, Error> {
    if list.is_empty() && patch.is_empty() {
        return Ok(list);
    }
    cost.take(list.len() + patch.len())?;
    if item_type(&list, patch)?.is_object() {
        return merge(list, patch.to_vec(), items, plan, cost);
    }
    let deleted: HashSet<_> = patch.iter().collect();
    Ok(list.into_iter().filter(|item| !deleted.contains(item)).collect())
}

/// Puts items in order: those that `first` names as it names them, the others as `second` does, and the others
/// before those of the first that they stood before. Items are named by what identifies them.
pub(super) fn arrange(
    items: Vec<Value>,
    first: &[Value],
    second: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, Error> {
    let first = positions(first);
    let second = positions(second);
    let mut named = Vec::new();
    let mut others = Vec::new();
    for item in items {
        let id = identity(&item, key)?;
        let live = second.get(id).copied();
        match first.get(id) {
            Some(position) => named.push((*position, live, item)),
            None => others.push((live, item)),
        }
    }
    named.sort_by_key(|(position, _, _)| *position);
    others.sort_by_key(|(live, _)| *live);
    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, position, item) in named {
        while let Some((_, other)) =
            others.next_if(|(live, _)| live.is_some() && position.is_some() && *live < position)
        {
            arranged.push(other);
        }
        arranged.push(item);
    }
    arranged.extend(others.map(|(_, item)| item));
    Ok(arranged)
}

/// What identifies the items of a list, one by one.
pub(super) fn identities(list: &[Value], key: Option<&str>) -> Result<Vec<Value>, Error> {
    list.iter().map(|item| identity(item, key).cloned()).collect()
}

/// One item of the lists, whose type all of them share.
pub(super) fn item_type<'v>(list: &'v [Value], patch: &'v [Value]) -> Result<&'v Value, Error> {
    let mut all = list.iter().chain(patch);
    let first = all.next().ok_or(Error::EmptyLists)?;
    if first.is_array() {
        return Err(Error::ListOfLists);
    }
    if first.is_null() || !all.all(|item| same_type(first, item)) {
        let lists = format!("[{} {}]", go::plain_list(list), go::plain_list(patch));
        return Err(Error::MixedList(lists));
    }
    Ok(first)
}

fn merge_by_key(
    list: Vec<Value>,
    patch: Vec<Value>,
    items: Shape<'_>,
    key: &str,
    cost: &PatchCost,
) -> Result<Vec<Value>, Error> {
    let (mut list, patch) = obey_directives(list, patch, key)?;
    let live = identities(&list, Some(key))?;
    let named = identities(&patch, Some(key))?;
    let mut known: HashMap<&Value, usize> = HashMap::with_capacity(live.len());
    for (position, id) in live.iter().enumerate() {
        known.entry(id).or_insert(position);
    }
    for (id, item) in named.iter().zip(patch) {
        let Value::Object(item) = item else {
            return Err(Error::not_an_object(&item));
        };
        if let Some(position) = known.get(id) {
            if let Value::Object(current) = mem::take(&mut list[*position]) {
                list[*position] = Value::Object(merge_objects(current, item, items, cost)?);
            }
        } else {
            known.insert(id, list.len());
            list.push(Value::Object(item));
        }
    }
    arrange(list, &named, &live, Some(key))
}

/// Carries out the `$patch` of items, and gives what is left of the list and of the patch.
fn obey_directives(
    mut list: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted = HashSet::new();
    let mut replaces = false;
    for item in patch {
        let Value::Object(map) = &item else {
            return Err(Error::not_an_object(&item));
        };
        let Some(directive) = map.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                deleted.insert(map.get(key).ok_or_else(|| Error::no_merge_key(map, key))?.clone());
            }
            Some("replace") => replaces = true,
            Some("merge") => return Err(Error::MergeInList),
            _ => return Err(Error::unknown_directive(directive, map)),
        }
    }
    if replaces {
        return Ok((plain, Vec::new()));
    }
    list.retain(|item| item.get(key).is_none_or(|id| !deleted.contains(id)));
    Ok((list, plain))
}

/// Where each is named for the first time.
fn positions(names: &[Value]) -> HashMap<&Value, usize> {
    let mut positions = HashMap::with_capacity(names.len());
    for (position, name) in names.iter().enumerate() {
        positions.entry(name).or_insert(position);
    }
    positions
}

/// The identity of an item: itself, or the value of its key.
fn identity<'v>(item: &'v Value, key: Option<&str>) -> Result<&'v Value, Error> {
    let Some(key) = key else { return Ok(item) };
    let map: &Object = item.as_object().ok_or_else(|| Error::not_an_object(item))?;
    map.get(key).ok_or_else(|| Error::no_merge_key(map, key))
}

fn kind_of(shape: Shape<'_>) -> &'static str {
    match shape {
        Shape::Map { .. } => "map",
        Shape::List { .. } => "slice",
        _ => "struct",
    }
}
