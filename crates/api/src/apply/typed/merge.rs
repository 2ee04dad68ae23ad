//! Merges an applied configuration into an object.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/merge.go mergingWalker, visitListItems

use serde_json::{Map, Value};

use super::{Atom, ListAtom, MANAGED_FIELDS, MapAtom, SkippedPath, TypeErrors, TypeRef, skip_below};
use crate::{apply::PathElement, type_schema::TypeSchema};

/// The live value with all that is applied put onto it. Nothing is removed.
///
/// Items of lists keep the order they have, unless the applied value asks for another order of its own items.
pub fn merge(live: &Value, applied: &Value, typed: &dyn TypeSchema) -> Result<Value, TypeErrors> {
    let mut merged = live.clone();
    put(&mut merged, applied, TypeRef::Known(typed), 0)?;
    Ok(merged)
}

/// The same, for whole objects: the record in `metadata.managedFields` is left out of the result.
pub(crate) fn merge_objects(
    live: &Value,
    applied: &Value,
    typed: &dyn TypeSchema,
) -> Result<Value, TypeErrors> {
    let mut merged = copy_without(live, MANAGED_FIELDS);
    put(&mut merged, applied, TypeRef::Known(typed), 0)?;
    Ok(merged)
}

/// Down to this depth equal parts are passed over without a look at their type.
const SHALLOW: usize = 8;

/// What an item of a merged list is made of.
#[derive(Clone, Copy)]
enum MergedItemSource {
    Old(usize),
    New(usize),
    Both { old: usize, new: usize },
}

/// Puts the applied value onto the live one, in place of it: most of an object stays as it is.
fn put(live: &mut Value, applied: &Value, typed: TypeRef<'_>, depth: usize) -> Result<(), TypeErrors> {
    match typed.resolve(applied) {
        Atom::Map(atom) if !atom.atomic => match (live, applied) {
            (Value::Object(old), Value::Object(new)) if !old.is_empty() || !new.is_empty() => {
                put_fields(old, new, atom, depth)
            }
            (Value::Object(old), Value::Null) if !old.is_empty() => Ok(()),
            (live, applied) => replace(live, applied),
        },
        Atom::List(atom) if !atom.is_atomic() => match (live, applied) {
            (Value::Array(old), Value::Array(new)) if !old.is_empty() || !new.is_empty() => {
                put_items(old, new, atom, depth)
            }
            (Value::Array(old), Value::Null) if !old.is_empty() => Ok(()),
            (live, applied) => replace(live, applied),
        },
        Atom::Scalar(_) | Atom::Map(_) | Atom::List(_) => replace(live, applied),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "one arm of many that can fail")]
fn replace(live: &mut Value, applied: &Value) -> Result<(), TypeErrors> {
    live.clone_from(applied);
    Ok(())
}

fn put_fields(
    old: &mut Map<String, Value>,
    new: &Map<String, Value>,
    atom: MapAtom<'_>,
    depth: usize,
) -> Result<(), TypeErrors> {
    for (name, applied) in new {
        match old.get_mut(name) {
            None => {
                old.insert(name.clone(), applied.clone());
            }
            // Most of what is applied is there already: that needs no look at the type.
            Some(live) if depth < SHALLOW && live == applied => {}
            Some(live) => put(live, applied, atom.child(name), depth + 1)
                .map_err(|errors| errors.below(&PathElement::field(name.as_str())))?,
        }
    }
    Ok(())
}

fn put_items(
    old: &mut Vec<Value>,
    new: &[Value],
    atom: ListAtom<'_>,
    depth: usize,
) -> Result<(), TypeErrors> {
    let plan = plan(old, new, atom)?;
    let mut items: Vec<Option<Value>> = std::mem::take(old).into_iter().map(Some).collect();
    let mut take = |at: usize| items[at].take().expect("an old item is used once");
    for source in plan {
        old.push(match source {
            MergedItemSource::Old(at) => take(at),
            MergedItemSource::New(at) => new[at].clone(),
            MergedItemSource::Both { old, new: at } => {
                let mut item = take(old);
                if depth >= SHALLOW || item != new[at] {
                    put(&mut item, &new[at], atom.items, depth + 1).map_err(|errors| {
                        match atom.element(&new[at]) {
                            Ok(element) => errors.below(&element),
                            Err(_) => errors,
                        }
                    })?;
                }
                item
            }
        });
    }
    Ok(())
}

/// Both lists in one: an item of both stands where the applied list wants it, an item of one stands after
/// what it stood after.
fn plan(old: &[Value], new: &[Value], atom: ListAtom<'_>) -> Result<Vec<MergedItemSource>, TypeErrors> {
    let new_at = ItemPositions::of(new, atom)?;
    if let Some(twice) = new_at.first_duplicate() {
        return Err(TypeErrors::of(format!("duplicate entries for key {twice}")));
    }
    let old_at = ItemPositions::of(old, atom)?;
    // Where the items of one list stand in the other.
    let in_new: Vec<Option<usize>> = old_at
        .elements
        .iter()
        .map(|element| new_at.first(element))
        .collect();
    let in_old: Vec<&[usize]> = new_at
        .elements
        .iter()
        .map(|element| old_at.all(element))
        .collect();
    let mut shared = in_old
        .iter()
        .enumerate()
        .filter(|(_, positions)| !positions.is_empty())
        .map(|(at, _)| at);
    let mut next_shared = shared.next();
    let mut taken = vec![false; new.len()];
    let mut plan = Vec::with_capacity(old.len().max(new.len()));
    // Duplicates are replaced, not merged.
    let item = |new: usize| match in_old[new] {
        [only] => MergedItemSource::Both { old: *only, new },
        _ => MergedItemSource::New(new),
    };
    let mut left = 0;
    let mut right = 0;
    while left < old.len() || right < new.len() {
        if left < old.len() && right < new.len() {
            if in_new[left] == Some(right) {
                taken[right] = true;
                plan.push(item(right));
                left += 1;
                right += 1;
                next_shared = shared.next();
                continue;
            }
            if in_new[left].is_some() && next_shared.is_some() && next_shared != in_new[left] {
                // In both, but another item of both must be first.
                left += 1;
                continue;
            }
        }
        if left < old.len() {
            match in_new[left] {
                None => {
                    plan.push(MergedItemSource::Old(left));
                    left += 1;
                    continue;
                }
                Some(at) if taken[at] => left += 1,
                Some(_) => {}
            }
        }
        if right < new.len() {
            taken[right] = true;
            plan.push(item(right));
            if next_shared == Some(right) {
                next_shared = shared.next();
            }
            right += 1;
        }
    }
    Ok(plan)
}

/// Where the items of a list stand.
struct ItemPositions<'a> {
    elements: Vec<PathElement<'a>>,
    /// Positions, sorted by element, then by position.
    sorted: Vec<usize>,
}

// --- ItemPositions ---

impl<'a> ItemPositions<'a> {
    fn of(items: &'a [Value], list: ListAtom<'a>) -> Result<Self, TypeErrors> {
        let mut elements = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            elements.push(
                list.element(item)
                    .map_err(|bad| TypeErrors::of(format!("element {index}: {bad}")))?,
            );
        }
        let mut sorted: Vec<usize> = (0..elements.len()).collect();
        sorted.sort_by(|left, right| elements[*left].cmp(&elements[*right]));
        Ok(Self { elements, sorted })
    }

    fn first(&self, element: &PathElement<'_>) -> Option<usize> {
        self.all(element).first().copied()
    }

    fn first_duplicate(&self) -> Option<&PathElement<'a>> {
        let pair = self
            .sorted
            .windows(2)
            .find(|pair| self.elements[pair[0]] == self.elements[pair[1]])?;
        Some(&self.elements[pair[0]])
    }

    fn all(&self, element: &PathElement<'_>) -> &[usize] {
        let start = self.sorted.partition_point(|at| self.elements[*at] < *element);
        let count = self.sorted[start..].partition_point(|at| self.elements[*at] == *element);
        &self.sorted[start..start + count]
    }
}

/// A copy without one field.
pub(crate) fn copy_without(value: &Value, skip: SkippedPath) -> Value {
    let Value::Object(fields) = value else {
        return value.clone();
    };
    if skip.is_empty() {
        return value.clone();
    }
    let kept = fields
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), copy_without(value, skip_below(skip, name)?))));
    Value::Object(kept.collect())
}
