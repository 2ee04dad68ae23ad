//! Property tests of merge, compare and apply with random objects.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/merge/update.go Apply, Update

use proptest::{collection::btree_map, option, prelude::*, sample::subsequence};
use serde_json::{Map, Value, json};

use super::{record::Record, tests::drop_nulls, *};
use crate::apply::{
    FieldSet,
    typed::{
        compare, extract_items, field_set, merge, named_field_set, remove_items,
        sample::{Sample, deployment},
        with_named_fields,
    },
};
use crate::time::Time;

/// The names one of two managers uses: no name belongs to both.
#[derive(Clone, Copy)]
struct ManagerFieldNames(&'static [&'static str]);

/// Whether a configuration may have fields without a name in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnnamedFields {
    Included,
    Omitted,
}

const ALL: ManagerFieldNames = ManagerFieldNames(&["a", "b", "c"]);
const LEFT: ManagerFieldNames = ManagerFieldNames(&["a", "b"]);
const RIGHT: ManagerFieldNames = ManagerFieldNames(&["x", "y"]);

fn texts(names: ManagerFieldNames) -> impl Strategy<Value = Value> {
    btree_map(proptest::sample::select(names.0), "[12]", 1..3).prop_map(|map| json!(map))
}

fn container(names: ManagerFieldNames) -> impl Strategy<Value = Map<String, Value>> {
    let ports = subsequence(vec![80, 443, 8080], 1..=2).prop_map(|ports| {
        ports
            .into_iter()
            .map(|port| json!({"containerPort": port, "protocol": "TCP"}))
            .collect::<Vec<_>>()
    });
    let env = btree_map(proptest::sample::select(names.0), "[12]", 1..2).prop_map(|env| {
        env.into_iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect::<Vec<_>>()
    });
    (
        option::of("[12]"),
        option::of(ports),
        option::of(env),
        option::of(Just(json!(["sh"]))),
    )
        .prop_map(|(image, ports, env, command)| {
            let fields = [
                ("image", image.map(Value::from)),
                ("ports", ports.map(Value::from)),
                ("env", env.map(Value::from)),
                ("command", command),
            ];
            fields
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect()
        })
}

fn containers(names: ManagerFieldNames) -> impl Strategy<Value = Value> {
    let chosen = subsequence(names.0.to_vec(), 1..=names.0.len()).prop_shuffle();
    chosen.prop_flat_map(move |chosen| {
        let each: Vec<_> = chosen
            .into_iter()
            .map(|name| {
                container(names).prop_map(move |mut fields| {
                    fields.insert("name".to_owned(), json!(name));
                    Value::Object(fields)
                })
            })
            .collect();
        each.prop_map(Value::Array)
    })
}

/// A configuration. Lists are not empty: no manager owns the emptiness of a list. Nor are maps: a map whose last
/// item is pruned is removed, even where the configuration asks for an empty one.
fn configuration(names: ManagerFieldNames) -> impl Strategy<Value = Value> {
    configuration_with(names, UnnamedFields::Included)
}

/// A configuration of fields with names in them. Others, such as replicas, are the same for all managers.
fn configuration_of_names(names: ManagerFieldNames) -> impl Strategy<Value = Value> {
    configuration_with(names, UnnamedFields::Omitted)
}

fn configuration_with(names: ManagerFieldNames, unnamed: UnnamedFields) -> impl Strategy<Value = Value> {
    let finalizers = subsequence(names.0.to_vec(), 1..=names.0.len()).prop_shuffle();
    let single = (
        option::of(0..3i64),
        option::of(texts(ALL)),
        option::of(texts(ALL)),
    );
    (
        option::of(texts(names)),
        option::of(texts(names)),
        option::of(finalizers),
        option::of(containers(names)),
        single,
    )
        .prop_map(
            move |(data, labels, finalizers, containers, (replicas, selector, anything))| {
                let mut object = json!({
                    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {},
                });
                let mut put = |path: &[&str], value: Option<Value>| {
                    let Some(value) = value else { return };
                    let mut at = &mut object;
                    for name in path {
                        at = &mut at[*name];
                    }
                    *at = value;
                };
                put(&["data"], data);
                put(&["metadata", "labels"], labels);
                put(&["metadata", "finalizers"], finalizers.map(|list| json!(list)));
                put(&["spec", "template", "spec", "containers"], containers);
                if unnamed == UnnamedFields::Included {
                    put(&["spec", "replicas"], replicas.map(Value::from));
                    put(&["spec", "selector", "matchLabels"], selector);
                    put(&["spec", "anything"], anything);
                }
                object
            },
        )
}

struct Server {
    typed: Sample,
    blank: Value,
}

impl Server {
    fn new() -> Self {
        let blank = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {}});
        Self {
            typed: deployment(),
            blank,
        }
    }

    fn subject(&self) -> FieldManager<'_> {
        FieldManager {
            api_version: "apps/v1",
            kind: "Deployment",
            subresource: "",
            typed: &self.typed,
            blank: &self.blank,
            reset: &ResetFields::Nothing,
            versions: &SingleVersion,
        }
    }

    /// Applies and stores. What was emptied is decoded as a server does it: it is not there, or as in a blank
    /// object.
    fn apply(&self, live: Option<&Value>, configuration: &Value, manager: &str, clock: i64) -> Value {
        let now = Time::from_unix(clock, 0);
        let mut object = self
            .subject()
            .apply(live, configuration, manager, ApplyConflictPolicy::Yes, now)
            .unwrap();
        drop_nulls(&mut object);
        if object.get("spec").is_none() {
            object["spec"] = self.blank["spec"].clone();
        }
        if let Some(live) = live {
            ignore_managed_fields_timestamps(live, &mut object);
        }
        object
    }
}

/// The object with all lists sorted, without times, nulls and emptiness: what two orders of writes agree on.
fn settled(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, _)| *name != "time")
                .map(|(name, value)| (name.clone(), settled(value)));
            Value::Object(
                kept.filter(|(_, value)| *value != json!(null) && *value != json!([]))
                    .collect(),
            )
        }
        Value::Array(items) => {
            let mut items: Vec<_> = items.iter().map(settled).collect();
            items.sort_by_key(ToString::to_string);
            Value::Array(items)
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn comparison_is_symmetric(old in configuration(ALL), new in configuration(ALL)) {
        let typed = deployment();
        let forth = compare(&old, &new, &typed).unwrap();
        let back = compare(&new, &old, &typed).unwrap();
        prop_assert_eq!(&forth.removed, &back.added);
        prop_assert_eq!(&forth.added, &back.removed);
        prop_assert_eq!(&forth.modified, &back.modified);
        prop_assert!(compare(&old, &old, &typed).unwrap().is_same());
        prop_assert!(forth.added.intersection(&forth.removed).is_empty());
        prop_assert!(forth.added.intersection(&forth.modified).is_empty());
    }

    #[test]
    fn what_is_merged_in_is_there_and_merging_it_again_changes_nothing(
        live in configuration(ALL), applied in configuration(ALL),
    ) {
        let typed = deployment();
        let merged = merge(&live, &applied, &typed).unwrap();
        prop_assert_eq!(&merge(&merged, &applied, &typed).unwrap(), &merged);
        let fields = field_set(&applied, &typed).difference(&FieldSet::of_fields(&[&["spec"]]));
        prop_assert!(fields.is_subset(&field_set(&merged, &typed)));
        let changed = compare(&merged, &applied, &typed).unwrap();
        prop_assert!(changed.modified.is_empty());
    }

    #[test]
    fn what_is_removed_and_what_is_kept_make_the_whole(object in configuration(ALL)) {
        let typed = deployment();
        let fields = field_set(&object, &typed);
        let half: FieldSet<'_> = fields.leaves().paths().into_iter().step_by(2).collect();
        let mut rest = remove_items(&object, &half, &typed);
        drop_nulls(&mut rest);
        prop_assert!(field_set(&rest, &typed).intersection(&half).is_empty());
        prop_assert_eq!(settled(&extract_items(&object, &fields.leaves(), &typed)), settled(&object));
    }

    #[test]
    fn naming_structs_at_once_or_afterwards_is_the_same(object in configuration(ALL)) {
        let typed = deployment();
        let afterwards = with_named_fields(&field_set(&object, &typed), &typed);
        prop_assert_eq!(named_field_set(&object, &typed), afterwards);
    }

    #[test]
    fn applying_is_idempotent(
        first in configuration(ALL), second in configuration(ALL), third in configuration(ALL),
    ) {
        let server = Server::new();
        let mut live = server.apply(None, &first, "one", 1);
        live = server.apply(Some(&live), &second, "two", 2);
        live = server.apply(Some(&live), &third, "one", 3);
        prop_assert_eq!(&server.apply(Some(&live), &third, "one", 4), &live);
    }

    #[test]
    fn disjoint_applies_commute(left in configuration(LEFT), right in configuration_of_names(RIGHT)) {
        let server = Server::new();
        let one = server.apply(Some(&server.apply(None, &left, "left", 1)), &right, "right", 2);
        let other = server.apply(Some(&server.apply(None, &right, "right", 1)), &left, "left", 2);
        prop_assert_eq!(settled(&one), settled(&other));
    }

    #[test]
    fn who_applies_nothing_any_more_leaves_nothing_behind(first in configuration(ALL)) {
        let server = Server::new();
        let live = server.apply(None, &first, "one", 1);
        let nothing = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}});
        let live = server.apply(Some(&live), &nothing, "one", 2);
        prop_assert!(live["metadata"].get("managedFields").is_none(), "{live}");
        let left = field_set(&live, &server.typed).leaves();
        let applied = field_set(&first, &server.typed).leaves();
        let identity = FieldSet::of_fields(&[&["apiVersion"], &["kind"], &["metadata", "name"], &["spec"]]);
        prop_assert!(left.intersection(&applied).difference(&identity).is_empty(), "{live}");
    }

    #[test]
    fn the_short_way_of_pruning_is_right(first in configuration(ALL), more in configuration(ALL)) {
        let server = Server::new();
        let subject = server.subject();
        let live = server.apply(None, &first, "one", 1);
        let record = Record::of(&live).unwrap();
        let Some(last) = record.entries.first() else { return Ok(()) };
        // All that was applied before, and more.
        let again = merge(&first, &more, &server.typed).unwrap();
        let merged = merge(&live, &again, &server.typed).unwrap();
        let mut own = last.clone();
        own.set = field_set(&again, &server.typed);
        own.source = None;
        prop_assume!(last.set.is_subset(&own.set));
        let mut record = Record::default();
        record.entries.push(own);
        prop_assert_eq!(subject.prune_fully(merged.clone(), &record, last).unwrap(), merged);
    }

    #[test]
    fn updates_leave_each_field_with_one_owner_and_only_fields_that_are_there(
        first in configuration(ALL), second in configuration(ALL), third in configuration(ALL),
    ) {
        let server = Server::new();
        let mut live: Option<Value> = None;
        for (clock, (mut object, manager)) in (1..).zip([(first, "one"), (second, "two"), (third, "one")]) {
            object["metadata"]["uid"] = json!("1");
            server.subject().track(live.as_ref(), &mut object, manager, Time::from_unix(clock, 0));
            live = Some(object);
        }
        let live = live.unwrap();
        let record = Record::of(&live).unwrap();
        let nothing = json!({});
        let there = compare(&nothing, &live, &server.typed).unwrap().added;
        for (index, entry) in record.entries.iter().enumerate() {
            prop_assert!(entry.set.is_subset(&there));
            for other in &record.entries[..index] {
                prop_assert!(entry.set.intersection(&other.set).is_empty());
            }
        }
    }
}
