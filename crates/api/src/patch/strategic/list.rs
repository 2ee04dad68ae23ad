//! Merges lists item by item.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use serde_json::Value;

use super::{DIRECTIVE, Error, Object, Work, merge as merge_objects, same_type};
use crate::{
    go,
    type_schema::{Patch, Shape},
};

/// Merges the items of a patch into a list: objects by their key, scalars by their value.
///
/// Items of the patch stand in the order of the patch; others keep their place among them where they can.
pub(super) fn merge(
    list: Vec<Value>,
    patch: Vec<Value>,
    items: Shape<'_>,
    plan: Patch<'_>,
    work: &Work,
) -> Result<Vec<Value>, Error> {
    if list.is_empty() && patch.is_empty() {
        return Ok(list);
    }
    work.take(list.len() + patch.len())?;
    if item_type(&list, &patch)?.is_object() {
        let Some(key) = plan.merge_key else {
            return Err(Error::NoPlan(kind_of(items)));
        };
        return merge_by_key(list, patch, items, key, work);
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
    work: &Work,
) -> Result<Vec<Value>, Error> {
    if list.is_empty() && patch.is_empty() {
        return Ok(list);
    }
    work.take(list.len() + patch.len())?;
    if item_type(&list, patch)?.is_object() {
        return merge(list, patch.to_vec(), items, plan, work);
    }
    let gone: HashSet<_> = patch.iter().collect();
    Ok(list.into_iter().filter(|item| !gone.contains(item)).collect())
}

/// Puts items in order: those that `first` names as it names them, the others as `second` does, and the others
/// before those of the first that they stood before. Items are named by what tells them apart.
pub(super) fn arrange(
    items: Vec<Value>,
    first: &[Value],
    second: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, Error> {
    let (first, second) = (places(first), places(second));
    let mut named = Vec::new();
    let mut others = Vec::new();
    for item in items {
        let id = identity(&item, key)?;
        let live = second.get(id).copied();
        match first.get(id) {
            Some(place) => named.push((*place, live, item)),
            None => others.push((live, item)),
        }
    }
    named.sort_by_key(|(place, _, _)| *place);
    others.sort_by_key(|(live, _)| *live);
    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, place, item) in named {
        while let Some((_, other)) =
            others.next_if(|(live, _)| live.is_some() && place.is_some() && *live < place)
        {
            arranged.push(other);
        }
        arranged.push(item);
    }
    arranged.extend(others.map(|(_, item)| item));
    Ok(arranged)
}

/// What tells the items of a list apart, one by one.
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
    work: &Work,
) -> Result<Vec<Value>, Error> {
    let (mut list, patch) = obey_directives(list, patch, key)?;
    let live = identities(&list, Some(key))?;
    let named = identities(&patch, Some(key))?;
    let mut known: HashMap<&Value, usize> = HashMap::with_capacity(live.len());
    for (place, id) in live.iter().enumerate() {
        known.entry(id).or_insert(place);
    }
    for (id, item) in named.iter().zip(patch) {
        let Value::Object(item) = item else {
            return Err(Error::not_an_object(&item));
        };
        if let Some(place) = known.get(id) {
            if let Value::Object(current) = mem::take(&mut list[*place]) {
                list[*place] = Value::Object(merge_objects(current, item, items, work)?);
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
    let mut gone = HashSet::new();
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
                gone.insert(map.get(key).ok_or_else(|| Error::no_merge_key(map, key))?.clone());
            }
            Some("replace") => replaces = true,
            Some("merge") => return Err(Error::MergeInList),
            _ => return Err(Error::unknown_directive(directive, map)),
        }
    }
    if replaces {
        return Ok((plain, Vec::new()));
    }
    list.retain(|item| item.get(key).is_none_or(|id| !gone.contains(id)));
    Ok((list, plain))
}

/// Where each is named for the first time.
fn places(names: &[Value]) -> HashMap<&Value, usize> {
    let mut places = HashMap::with_capacity(names.len());
    for (place, name) in names.iter().enumerate() {
        places.entry(name).or_insert(place);
    }
    places
}

/// What tells an item from others: itself, or the value of its key.
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
