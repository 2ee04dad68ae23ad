//! Property tests of field sets: they are compared with sets of plain paths.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/fieldpath/set.go Union, Intersection, Difference

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::{FieldSet, Path, PathElement};

type PlainFieldSet = BTreeSet<Path<'static>>;

fn element() -> impl Strategy<Value = PathElement<'static>> {
    let scalar = prop_oneof![
        (-2..12i64).prop_map(Value::from),
        prop_oneof![Just(0.5), Just(1.0)].prop_map(Value::from),
        "[ab<\"\\\\\u{e9}\n]{0,2}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    prop_oneof![
        4 => "[a-c.:\"]{0,2}".prop_map(PathElement::field),
        2 => (scalar.clone(), proptest::option::of(scalar.clone())).prop_map(|(first, second)| {
            PathElement::key([("name", Some(first)), ("key", second)].into_iter().filter_map(|(n, v)| Some((n, v?))))
        }),
        1 => scalar.prop_map(PathElement::item),
        1 => (0..12i64).prop_map(PathElement::Index),
    ]
}

fn paths() -> impl Strategy<Value = Vec<Path<'static>>> {
    vec(vec(element(), 1..4).prop_map(Path), 0..20)
}

fn set(paths: &[Path<'static>]) -> FieldSet<'static> {
    paths.iter().cloned().collect()
}

fn model(set: &FieldSet<'static>) -> PlainFieldSet {
    let paths = set.paths();
    let model: PlainFieldSet = paths.iter().cloned().collect();
    assert_eq!(model.len(), paths.len(), "a path is listed once");
    assert_eq!(model.len(), set.len());
    model
}

fn is_below(path: &Path<'_>, root: &Path<'_>) -> bool {
    path.0.len() >= root.0.len() && path.0[..root.0.len()] == root.0[..]
}

proptest! {
    #[test]
    fn sets_behave_like_sets_of_paths(left in paths(), right in paths()) {
        let a = set(&left);
        let b = set(&right);
        let (in_a, in_b): (PlainFieldSet, PlainFieldSet) = (left.into_iter().collect(), right.into_iter().collect());
        prop_assert_eq!(model(&a), in_a.clone());
        prop_assert_eq!(model(&a.union(&b)), &in_a | &in_b);
        prop_assert_eq!(model(&a.intersection(&b)), &in_a & &in_b);
        prop_assert_eq!(model(&a.difference(&b)), &in_a - &in_b);
        prop_assert_eq!(a.is_subset(&b), in_a.is_subset(&in_b));
        prop_assert!(a.is_subset(&a.union(&b)));
        prop_assert_eq!(a.is_empty(), in_a.is_empty());
        for path in in_a.iter().chain(&in_b) {
            prop_assert_eq!(a.contains(&path.0), in_a.contains(path));
        }
        let apart = in_a.iter().filter(|path| !in_b.iter().any(|root| is_below(path, root)));
        prop_assert_eq!(model(&a.recursive_difference(&b)), apart.cloned().collect::<PlainFieldSet>());
        let leaves = in_a.iter().filter(|path| !in_a.iter().any(|other| other != *path && is_below(other, path)));
        prop_assert_eq!(model(&a.leaves()), leaves.cloned().collect::<PlainFieldSet>());
    }

    #[test]
    fn union_and_intersection_do_not_care_for_order(x in paths(), y in paths(), z in paths()) {
        let x = set(&x);
        let y = set(&y);
        let z = set(&z);
        prop_assert_eq!(x.union(&y), y.union(&x));
        prop_assert_eq!(x.intersection(&y), y.intersection(&x));
        prop_assert_eq!(x.union(&y).union(&z), x.union(&y.union(&z)));
        prop_assert_eq!(x.intersection(&y.union(&z)), x.intersection(&y).union(&x.intersection(&z)));
        prop_assert_eq!(x.difference(&y).union(&x.intersection(&y)), x);
    }

    #[test]
    fn records_read_back_what_was_written(paths in paths()) {
        let set = set(&paths);
        let record = set.encode();
        prop_assert_eq!(FieldSet::decode(&record).unwrap(), set.clone());
        let mut text = String::new();
        set.write(&mut text);
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), record);
    }

    #[test]
    fn no_record_can_crash_the_reader(keys in vec("[fkvix.][:]?[a{}\\[\\]\":1,.]{0,6}", 0..6)) {
        let mut record = json!({});
        for (index, key) in keys.iter().enumerate() {
            let at = if index % 2 == 0 { &mut record } else { record.as_object_mut().unwrap().values_mut().next().unwrap() };
            at[key] = json!({});
        }
        if let Ok(decoded) = FieldSet::decode_record(&record) {
            let again = decoded.set.encode();
            prop_assert_eq!(decoded.canonical, again == record);
            prop_assert_eq!(FieldSet::decode(&again).unwrap(), decoded.set);
        }
    }
}
