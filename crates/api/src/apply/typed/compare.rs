//! Compares two objects: fields that were added, removed and changed.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/compare.go Comparison, compareWalker

use serde_json::{Map, Value};

use super::{Atom, ListAtom, MANAGED_FIELDS, MapAtom, SkippedPath, TypeErrors, TypeRef, skip_below};
use crate::{
    apply::{
        PathElement,
        order::same,
        set::{FieldSet, FieldSetBuilder, Node},
    },
    type_schema::TypeSchema,
};

/// Down to this depth equal parts are passed over without a look at their type.
const SHALLOW: usize = 8;

/// What is different between two objects. No field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison<'a> {
    /// In the old object only.
    pub removed: FieldSet<'a>,
    /// In both, with other values.
    pub modified: FieldSet<'a>,
    /// In the new object only.
    pub added: FieldSet<'a>,
}

/// Compares two values of one type. The order of associative lists does not count.
pub fn compare<'a>(
    old: &'a Value,
    new: &'a Value,
    typed: &'a dyn TypeSchema,
) -> Result<Comparison<'a>, TypeErrors> {
    let delta = value(Some(old), Some(new), TypeRef::Known(typed), &[], 0)?;
    Ok(delta.into_comparison())
}

/// The same, for whole objects: the record in `metadata.managedFields` does not count.
pub(crate) fn compare_objects<'a>(
    old: &'a Value,
    new: &'a Value,
    typed: &'a dyn TypeSchema,
) -> Result<Comparison<'a>, TypeErrors> {
    let delta = value(Some(old), Some(new), TypeRef::Known(typed), MANAGED_FIELDS, 0)?;
    Ok(delta.into_comparison())
}

/// What is different at one location and below it.
#[derive(Default)]
struct SubtreeComparison<'a> {
    removed: FieldSetMark<'a>,
    modified: FieldSetMark<'a>,
    added: FieldSetMark<'a>,
}

#[derive(Default)]
struct FieldSetMark<'a> {
    member: bool,
    below: FieldSetBuilder<'a>,
}

type JsonObject = Map<String, Value>;

// --- Comparison ---

impl Comparison<'_> {
    /// Whether nothing is different.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }
}

// --- SubtreeComparison ---

impl<'a> SubtreeComparison<'a> {
    fn leaf(old: Option<&Value>, new: Option<&Value>) -> Self {
        let mut delta = Self::default();
        if let (Some(old), Some(new)) = (old, new) {
            delta.modified.member = !same(old, new);
        }
        delta
    }

    fn join(&mut self, other: Self) {
        for (mine, theirs) in [
            (&mut self.removed, other.removed),
            (&mut self.modified, other.modified),
            (&mut self.added, other.added),
        ] {
            mine.member |= theirs.member;
            mine.below.append(theirs.below);
        }
    }

    /// Takes in what is different one step below.
    fn attach(&mut self, element: &PathElement<'a>, below: Self) {
        self.removed.attach(element, below.removed);
        self.modified.attach(element, below.modified);
        self.added.attach(element, below.added);
    }

    fn into_comparison(self) -> Comparison<'a> {
        Comparison {
            removed: self.removed.below.finish(),
            modified: self.modified.below.finish(),
            added: self.added.below.finish(),
        }
    }
}

// --- FieldSetMark ---

impl<'a> FieldSetMark<'a> {
    fn attach(&mut self, element: &PathElement<'a>, mark: FieldSetMark<'a>) {
        if mark.member || !mark.below.is_empty() {
            self.below.push(Node {
                element: element.clone(),
                member: mark.member,
                below: mark.below.finish(),
            });
        }
    }
}

fn value<'a>(
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    typed: TypeRef<'a>,
    skip: SkippedPath,
    depth: usize,
) -> Result<SubtreeComparison<'a>, TypeErrors> {
    let mut delta = match (old, new) {
        (None, None) => SubtreeComparison::default(),
        (Some(before), Some(after)) if typed.distinguishes(before, after) => {
            let mut delta = atom(old, new, typed.resolve(before), skip, depth)?;
            delta.join(atom(old, new, typed.resolve(after), skip, depth)?);
            delta
        }
        (_, Some(value)) | (Some(value), None) => atom(old, new, typed.resolve(value), skip, depth)?,
    };
    delta.added.member |= old.is_none();
    delta.removed.member |= new.is_none();
    Ok(delta)
}

fn atom<'a>(
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    atom: Atom<'a>,
    skip: SkippedPath,
    depth: usize,
) -> Result<SubtreeComparison<'a>, TypeErrors> {
    match atom {
        Atom::Scalar(_) => Ok(SubtreeComparison::leaf(old, new)),
        Atom::Map(atom) => {
            let before = old.and_then(Value::as_object);
            let after = new.and_then(Value::as_object);
            let empty = before.is_none_or(Map::is_empty) && after.is_none_or(Map::is_empty);
            if atom.atomic || empty {
                Ok(SubtreeComparison::leaf(old, new))
            } else {
                map(before, after, atom, skip, depth)
            }
        }
        Atom::List(atom) => {
            let before = old.and_then(Value::as_array);
            let after = new.and_then(Value::as_array);
            let before = before.map_or(&[][..], Vec::as_slice);
            let after = after.map_or(&[][..], Vec::as_slice);
            let empty = before.is_empty() && after.is_empty();
            if atom.is_atomic() || empty {
                Ok(SubtreeComparison::leaf(old, new))
            } else {
                list(before, after, atom, depth)
            }
        }
    }
}

fn map<'a>(
    old: Option<&'a JsonObject>,
    new: Option<&'a JsonObject>,
    atom: MapAtom<'a>,
    skip: SkippedPath,
    depth: usize,
) -> Result<SubtreeComparison<'a>, TypeErrors> {
    let mut delta = SubtreeComparison::default();
    for (name, before) in old.into_iter().flatten() {
        let after = new.and_then(|new| new.get(name));
        let Some(skip) = skip_below(skip, name) else {
            continue;
        };
        // Most of two versions of an object is the same: that needs no look at the type. To compare at every level
        // would read a deep object as often as it is deep.
        if depth < SHALLOW && skip.is_empty() && after.is_some_and(|after| before == after) {
            continue;
        }
        below(
            &mut delta,
            &PathElement::field(name.as_str()),
            value(Some(before), after, atom.child(name), skip, depth + 1),
        )?;
    }
    for (name, after) in new.into_iter().flatten() {
        let Some(skip) = skip_below(skip, name) else {
            continue;
        };
        if !old.is_some_and(|old| old.contains_key(name)) {
            below(
                &mut delta,
                &PathElement::field(name.as_str()),
                value(None, Some(after), atom.child(name), skip, depth + 1),
            )?;
        }
    }
    Ok(delta)
}

fn list<'a>(
    old: &'a [Value],
    new: &'a [Value],
    atom: ListAtom<'a>,
    depth: usize,
) -> Result<SubtreeComparison<'a>, TypeErrors> {
    let old = sorted(old, atom)?;
    let new = sorted(new, atom)?;
    let mut old = old.as_slice();
    let mut new = new.as_slice();
    let mut delta = SubtreeComparison::default();
    while let Some(element) = first(old, new) {
        let before = take(&mut old, &element);
        let after = take(&mut new, &element);
        items(&mut delta, &element, before, after, (atom, depth))?;
    }
    Ok(delta)
}

/// Compares what stands under one key. An item that is there twice is one field, its parts have no owner.
fn items<'a>(
    delta: &mut SubtreeComparison<'a>,
    element: &PathElement<'a>,
    old: &[(PathElement<'a>, &'a Value)],
    new: &[(PathElement<'a>, &'a Value)],
    (atom, depth): (ListAtom<'a>, usize),
) -> Result<(), TypeErrors> {
    let before = old.first().map(|item| item.1);
    let after = new.first().map(|item| item.1);
    let whole = || FieldSetMark {
        member: true,
        below: FieldSetBuilder::default(),
    };
    match (old.len(), new.len()) {
        (1, 1) if depth < SHALLOW && before == after => Ok(()),
        (0 | 1, 0 | 1) => below(delta, element, value(before, after, atom.items, &[], depth + 1)),
        (2.., 2..) => {
            let equal =
                old.len() == new.len() && old.iter().zip(new).all(|(before, after)| same(before.1, after.1));
            if !equal {
                delta.modified.attach(element, whole());
            }
            Ok(())
        }
        (2.., _) => {
            delta.removed.attach(element, whole());
            if after.is_some() {
                below(delta, element, value(None, after, atom.items, &[], depth + 1))
            } else {
                Ok(())
            }
        }
        (_, 2..) => {
            delta.added.attach(element, whole());
            if before.is_some() {
                below(delta, element, value(before, None, atom.items, &[], depth + 1))
            } else {
                Ok(())
            }
        }
    }
}

/// Takes in what is different one step below.
fn below<'a>(
    delta: &mut SubtreeComparison<'a>,
    element: &PathElement<'a>,
    found: Result<SubtreeComparison<'a>, TypeErrors>,
) -> Result<(), TypeErrors> {
    delta.attach(element, found.map_err(|errors| errors.below(element))?);
    Ok(())
}

fn sorted<'a>(
    items: &'a [Value],
    atom: ListAtom<'a>,
) -> Result<Vec<(PathElement<'a>, &'a Value)>, TypeErrors> {
    let mut found = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let element = atom
            .element(item)
            .map_err(|bad| TypeErrors::of(format!("element {index}: {bad}")))?;
        found.push((element, item));
    }
    found.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(found)
}

fn first<'a>(
    old: &[(PathElement<'a>, &'a Value)],
    new: &[(PathElement<'a>, &'a Value)],
) -> Option<PathElement<'a>> {
    let first = match (old.first(), new.first()) {
        (Some(old), Some(new)) if old.0 <= new.0 => old,
        (Some(old), None) => old,
        (_, new) => new?,
    };
    Some(first.0.clone())
}

/// Takes the items under one key from the front.
fn take<'s, 'a>(
    items: &mut &'s [(PathElement<'a>, &'a Value)],
    element: &PathElement<'a>,
) -> &'s [(PathElement<'a>, &'a Value)] {
    let count = items.iter().take_while(|item| item.0 == *element).count();
    let (taken, rest) = items.split_at(count);
    *items = rest;
    taken
}
