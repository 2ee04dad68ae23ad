use std::{collections::BTreeMap, sync::Arc};

use proptest::{collection::vec, prelude::*};

use super::Store;
use crate::{
    Key,
    object::{Object, ObjectMeta, OwnerReference, SlimObject},
    selector::Selector,
};

type TestObject = SlimObject<()>;

fn object(namespace: &str, name: &str, label: Option<&str>) -> TestObject {
    SlimObject {
        metadata: ObjectMeta {
            name: name.into(),
            namespace: namespace.into(),
            labels: label.map(|value| ("app", value)).into_iter().collect(),
            ..ObjectMeta::default()
        },
        fields: (),
    }
}

fn put(store: &Store<TestObject>, object: TestObject) {
    let key = Key::new(&object.metadata.namespace, &object.metadata.name);
    store.insert(key, Arc::new(object));
}

#[test]
fn a_shared_index_is_created_once() {
    let store = Store::<TestObject>::default();
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let index = || {
        let calls = Arc::clone(&calls);
        store.shared_index("name", move |object: &TestObject| {
            calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            vec![object.metadata.name.to_string()]
        })
    };
    let indexes = [index(), index()];
    put(&store, object("a", "one", None));
    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1);
    for index in indexes {
        assert_eq!(index.keys("one"), [Key::new("a", "one")]);
    }
}

#[test]
fn indexes_by_namespace_label_and_owner() {
    let store = Store::default();
    put(&store, object("a", "one", Some("web")));
    let namespaces = store.by_namespace();
    let apps = store.by_label("app");
    let owners = store.by_owner();
    let controllers = store.by_controller();
    put(&store, object("a", "two", Some("web")));
    put(&store, object("b", "three", None));
    let mut owned = object("b", "four", None);
    owned.metadata.owner_references = [
        OwnerReference {
            uid: "u1".into(),
            controller: true,
            ..OwnerReference::default()
        },
        OwnerReference {
            uid: "u2".into(),
            ..OwnerReference::default()
        },
    ]
    .into_iter()
    .collect();
    put(&store, owned);
    assert_eq!(namespaces.keys("a"), [Key::new("a", "one"), Key::new("a", "two")]);
    assert_eq!(apps.count("web"), 2);
    assert_eq!(apps.get("none").len(), 0);
    assert_eq!(owners.keys("u2"), [Key::new("b", "four")]);
    assert_eq!(controllers.keys("u1"), [Key::new("b", "four")]);
    assert_eq!(controllers.count("u2"), 0);
    put(&store, object("a", "two", Some("db")));
    assert_eq!((apps.count("web"), apps.count("db")), (1, 1));
    store.remove(&Key::new("a", "two"));
    assert_eq!(apps.values(), ["web"]);
}

proptest! {
    #[test]
    fn an_index_finds_the_same_as_a_scan(
        steps in vec((0..4_u8, 0..6_u8, proptest::option::of(0..3_u8), any::<bool>()), 0..80)
    ) {
        let store = Store::default();
        let apps = store.by_label("app");
        let mut model = BTreeMap::new();
        for (namespace, name, label, is_present) in steps {
            let namespace = format!("ns{namespace}");
            let name = format!("n{name}");
            let key = Key::new(&namespace, &name);
            if is_present {
                let label = label.map(|label| label.to_string());
                put(&store, object(&namespace, &name, label.as_deref()));
                model.insert(key, label);
            } else {
                store.remove(&key);
                model.remove(&key);
            }
            for value in ["0", "1", "2"] {
                let expected: Vec<_> = model
                    .iter()
                    .filter(|(_, label)| label.as_deref() == Some(value))
                    .map(|(key, _)| key.clone())
                    .collect();
                prop_assert_eq!(apps.keys(value), expected);
            }
            prop_assert_eq!(store.len(), model.len());
        }
    }
}

#[test]
fn label_indexes_are_shared_and_unnamed_ones_are_not() {
    let store: Store<TestObject> = Store::default();
    let one = store.by_label("app");
    let another = store.by_label("app");
    assert_eq!(one.position, another.position);
    assert_ne!(store.by_label("tier").position, one.position);
    let unnamed = || store.index(|_| Vec::new()).position;
    assert_ne!(unnamed(), unnamed());
}

fn requirement() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..3_u8).prop_map(|value| format!("app={value}")),
        (0..3_u8).prop_map(|value| format!("app!={value}")),
        (0..3_u8, 0..3_u8).prop_map(|(one, other)| format!("app in ({one},{other})")),
        (0..3_u8, 0..3_u8).prop_map(|(one, other)| format!("app notin ({one},{other})")),
        Just("app".to_owned()),
        Just("!tier".to_owned()),
    ]
}

proptest! {
    #[test]
    fn select_finds_the_same_with_and_without_indexes(
        objects in vec((0..3_u8, 0..9_u8, proptest::option::of(0..3_u8)), 0..40),
        namespace in proptest::option::of(0..3_u8),
        requirements in vec(requirement(), 0..3),
        with_namespaces in any::<bool>(),
        with_labels in any::<bool>(),
    ) {
        let store = Store::default();
        let _namespaces = with_namespaces.then(|| store.by_namespace());
        let _apps = with_labels.then(|| store.by_label("app"));
        let mut model = BTreeMap::new();
        for (namespace, name, label) in objects {
            let namespace = format!("ns{namespace}");
            let name = format!("n{name}");
            let label = label.map(|label| label.to_string());
            put(&store, object(&namespace, &name, label.as_deref()));
            let labels: BTreeMap<String, String> = label.map(|label| ("app".to_owned(), label)).into_iter().collect();
            model.insert(Key::new(&namespace, &name), labels);
        }
        let namespace = namespace.map(|namespace| format!("ns{namespace}"));
        let selector: Selector = requirements.join(",").parse().unwrap();
        model.retain(|key, labels| {
            namespace.as_ref().is_none_or(|namespace| key.namespace() == namespace) && selector.matches(labels)
        });
        let found: Vec<Key> = store.select(namespace.as_deref(), &selector).iter().map(|object| object.key()).collect();
        prop_assert_eq!(found, model.into_keys().collect::<Vec<_>>());
    }
}
