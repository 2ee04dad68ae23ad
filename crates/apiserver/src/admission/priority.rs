//! `PodPriority`: sets the priority of a pod from its PriorityClass; at most one class is the global default.

use k3_api::{
    status::Status,
    strategy::{Tree, TreeMut},
};
use serde_json::Value;

use super::{AdmissionAttributes, AdmissionPlugin, Operation, derived_cache::DerivedCache, object, resource};
use crate::cache::WatchCaches;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";
/// Classes that the system itself needs.
const SYSTEM: [&str; 2] = ["system-node-critical", "system-cluster-critical"];

#[derive(Default)]
pub(super) struct PodPriority {
    known: DerivedCache<Option<ResolvedPriorityClass>>,
}

/// What a pod gets from its class.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResolvedPriorityClass {
    /// Empty: of no class.
    name: String,
    priority: i64,
    /// Empty if the class sets none.
    preemption: String,
}

// upstream: plugin/pkg/admission/priority/admission.go Admit, Validate
impl AdmissionPlugin for PodPriority {
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        if !attributes.is_of("", "pods") || !attributes.subresource.is_empty() {
            return Ok(());
        }
        match attributes.operation {
            Operation::Create => self.prioritize(attributes, caches),
            Operation::Update => {
                if let Some(old) = attributes.old {
                    keep(attributes.object, old);
                }
                Ok(())
            }
            Operation::Delete | Operation::Connect => Ok(()),
        }
    }

    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        if !attributes.is_of(GROUP, CLASSES) || !attributes.subresource.is_empty() {
            return Ok(());
        }
        let name = attributes.object.at("metadata").text("name");
        if attributes.operation == Operation::Delete {
            return if SYSTEM.contains(&name) {
                Err(attributes.forbidden("this is a system priority class and cannot be deleted"))
            } else {
                Ok(())
            };
        }
        if !attributes.object.flag("globalDefault") {
            return Ok(());
        }
        match self.default_class(caches) {
            Some(class) if attributes.operation == Operation::Create || class.name != name => Err(attributes
                .forbidden(format!(
                    "PriorityClass {} is already marked as default. Only one default can exist",
                    class.name
                ))),
            _ => Ok(()),
        }
    }
}

impl PodPriority {
    // upstream: plugin/pkg/admission/priority/admission.go admitPod
    fn prioritize(
        &self,
        attributes: &mut AdmissionAttributes<'_>,
        caches: &WatchCaches,
    ) -> Result<(), Status> {
        let spec = attributes.object.at("spec");
        let class = match spec.text("priorityClassName") {
            "" => self
                .default_class(caches)
                .unwrap_or_else(ResolvedPriorityClass::none),
            name => match object(GROUP, CLASSES, "", name, caches) {
                Some(class) => ResolvedPriorityClass::read(&class),
                None => {
                    return Err(attributes.forbidden(format!("no PriorityClass with name {name} was found")));
                }
            },
        };
        if let Some(said) = spec.int("priority")
            && said != class.priority
        {
            return Err(attributes.forbidden(format!(
                "the integer value of priority ({said}) must not be provided in pod spec; priority admission controller \
                 computed {} from the given PriorityClass name",
                class.priority
            )));
        }
        let said = spec.text("preemptionPolicy");
        if !class.preemption.is_empty() && spec.has("preemptionPolicy") && said != class.preemption {
            return Err(attributes.forbidden(format!(
                "the string value of PreemptionPolicy ({said}) must not be provided in pod spec; priority admission \
                 controller computed {} from the given PriorityClass name",
                class.preemption
            )));
        }
        let spec = attributes.object.ensure_object("spec");
        spec.set("priority", class.priority);
        for (name, value) in [
            ("priorityClassName", class.name),
            ("preemptionPolicy", class.preemption),
        ] {
            if !value.is_empty() {
                spec.set(name, value);
            }
        }
        Ok(())
    }

    /// The class of pods that name none.
    fn default_class(&self, caches: &WatchCaches) -> Option<ResolvedPriorityClass> {
        let classes = resource(GROUP, CLASSES, caches);
        self.known.get(&classes, lowest_default)
    }
}

/// The default among all classes. Two can become it at the same time: then the lower one is.
// upstream: plugin/pkg/admission/priority/admission.go getDefaultPriorityClass
fn lowest_default(classes: &[Value]) -> Option<ResolvedPriorityClass> {
    classes
        .iter()
        .filter(|class| class.flag("globalDefault"))
        .map(ResolvedPriorityClass::read)
        .min_by_key(|class| class.priority)
}

/// A client that does not know the fields leaves them as they are.
fn keep(pod: &mut Value, old: &Value) {
    for name in ["priority", "preemptionPolicy"] {
        let before = old.at("spec").at(name);
        if !before.is_null() {
            pod.ensure_object("spec").set_default(name, before.clone());
        }
    }
}

// --- ResolvedPriorityClass ---

impl ResolvedPriorityClass {
    fn read(class: &Value) -> Self {
        ResolvedPriorityClass {
            name: class.at("metadata").text("name").to_owned(),
            priority: class.int("value").unwrap_or_default(),
            preemption: class.text("preemptionPolicy").to_owned(),
        }
    }

    /// What holds when no class is the default.
    fn none() -> Self {
        ResolvedPriorityClass {
            name: String::new(),
            priority: 0,
            preemption: "PreemptLowerPriority".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    fn class(name: &str, value: i64, is_default: bool) -> Value {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "globalDefault": is_default, "preemptionPolicy": "Never",
        })
    }

    fn pod(spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": spec})
    }

    fn update(world: &TestCluster, new: Value, old: &Value) -> Result<Value, String> {
        world.update(&PodPriority::default(), new, old)
    }

    #[tokio::test]
    async fn sets_priority_from_class_or_default() {
        let world = TestCluster::new().await;
        let none = world.admit(&PodPriority::default(), pod(&json!({}))).unwrap();
        assert_eq!(
            none.at("spec"),
            &json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"})
        );
        world.put(class("high", 1000, false)).await;
        let high = pod(&json!({"priorityClassName": "high"}));
        let high = world.admit(&PodPriority::default(), high).unwrap();
        assert_eq!(
            high.at("spec"),
            &json!({"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"})
        );
        let plugin = PodPriority::default();
        assert_eq!(world.admit(&plugin, pod(&json!({}))).unwrap(), none);
        world.put(class("usual", 7, true)).await;
        let usual = world.admit(&plugin, pod(&json!({}))).unwrap();
        assert_eq!(
            usual.at("spec"),
            &json!({"priorityClassName": "usual", "priority": 7, "preemptionPolicy": "Never"})
        );
    }

    #[tokio::test]
    async fn rejects_priority_that_differs_from_class() {
        let world = TestCluster::new().await;
        let refused = |spec| world.admit(&PodPriority::default(), pod(&spec)).unwrap_err();
        assert_eq!(
            refused(json!({"priorityClassName": "absent"})),
            r#"pods "p" is forbidden: no PriorityClass with name absent was found"#
        );
        assert_eq!(
            refused(json!({"priority": 5})),
            "pods \"p\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission \
             controller computed 0 from the given PriorityClass name"
        );
        assert_eq!(
            refused(json!({"preemptionPolicy": "Never"})),
            "pods \"p\" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority \
             admission controller computed PreemptLowerPriority from the given PriorityClass name"
        );
        assert!(
            world
                .admit(&PodPriority::default(), pod(&json!({"priority": 0})))
                .is_ok()
        );
    }

    #[tokio::test]
    async fn update_without_priority_keeps_it() {
        let world = TestCluster::new().await;
        let old = pod(&json!({"priority": 9, "preemptionPolicy": "Never"}));
        assert_eq!(update(&world, pod(&json!({})), &old).unwrap(), old);
        let other = pod(&json!({"priority": 8, "preemptionPolicy": "Never"}));
        assert_eq!(update(&world, other.clone(), &old).unwrap(), other);
    }

    #[tokio::test]
    async fn rejects_second_default_class() {
        let world = TestCluster::new().await;
        let first = class("first", 1, true);
        assert!(world.admit(&PodPriority::default(), first.clone()).is_ok());
        world.put(first.clone()).await;
        assert_eq!(
            world
                .admit(&PodPriority::default(), class("second", 2, true))
                .unwrap_err(),
            r#"priorityclasses.scheduling.k8s.io "second" is forbidden: PriorityClass first is already marked as default. Only one default can exist"#
        );
        assert!(
            world
                .admit(&PodPriority::default(), class("second", 2, false))
                .is_ok()
        );
        assert!(update(&world, first.clone(), &first).is_ok());
        let second = class("second", 2, true);
        assert!(update(&world, second, &class("second", 2, false)).is_err());
    }

    #[tokio::test]
    async fn rejects_deletion_of_system_classes() {
        let world = TestCluster::new().await;
        let delete = |name| world.delete(&PodPriority::default(), class(name, 1, true));
        assert_eq!(
            delete("system-node-critical").unwrap_err(),
            "priorityclasses.scheduling.k8s.io \"system-node-critical\" is forbidden: this is a system priority class and cannot \
             be deleted"
        );
        assert!(delete("other").is_ok());
    }

    #[test]
    fn lowest_of_two_defaults_wins() {
        let found = lowest_default(&[class("a", 5, true), class("b", 3, true), class("c", 1, false)]);
        assert_eq!(found.unwrap().name, "b");
    }
}
