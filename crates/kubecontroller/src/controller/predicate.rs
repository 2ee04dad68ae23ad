//! Which changes matter.
//!
//! Whatever predicate is asked, an object that is new, gone or going matters to those of this module that compare old and new:
//! a controller that waits for a change of generation must not miss that its object is to be cleaned up. So does one that the
//! resync period brings back: that is what it is for.

use std::sync::Arc;

use crate::{
    informer::Delta,
    object::Object,
    selector::{ParseSelectorError, Selector},
};

/// Tells whether a change matters. Any closure is one.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kubecontroller::{
///     controller::{Predicate, generation_changed, labels_changed},
///     informer::Delta,
/// };
///
/// let placed = |delta: &Delta<Pod>| delta.object().spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
/// let predicate = generation_changed().or(labels_changed()).and(placed);
/// # let _: Predicate<Pod> = predicate;
/// ```
pub struct Predicate<T> {
    holds: Holds<T>,
}

type Holds<T> = Arc<dyn Fn(&Delta<T>) -> bool + Send + Sync>;

// --- Predicate ---

impl<T> Predicate<T> {
    /// A predicate from a closure.
    pub fn new(holds: impl Fn(&Delta<T>) -> bool + Send + Sync + 'static) -> Self {
        Predicate {
            holds: Arc::new(holds),
        }
    }

    /// Whether a change matters.
    pub fn holds(&self, delta: &Delta<T>) -> bool {
        (self.holds)(delta)
    }
}

impl<T: 'static> Predicate<T> {
    /// Both hold.
    #[must_use]
    pub fn and(self, other: impl Into<Predicate<T>>) -> Self {
        let other = other.into();
        Predicate::new(move |delta| self.holds(delta) && other.holds(delta))
    }

    /// One of them holds.
    #[must_use]
    pub fn or(self, other: impl Into<Predicate<T>>) -> Self {
        let other = other.into();
        Predicate::new(move |delta| self.holds(delta) || other.holds(delta))
    }

    /// It does not hold.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "`a.and(b).not()` reads as it is; `!` is there as well"
    )]
    pub fn not(self) -> Self {
        Predicate::new(move |delta| !self.holds(delta))
    }
}

impl<T: 'static> std::ops::Not for Predicate<T> {
    type Output = Self;

    fn not(self) -> Self {
        Predicate::not(self)
    }
}

impl<T> Clone for Predicate<T> {
    fn clone(&self) -> Self {
        Predicate {
            holds: Arc::clone(&self.holds),
        }
    }
}

impl<T, F: Fn(&Delta<T>) -> bool + Send + Sync + 'static> From<F> for Predicate<T> {
    fn from(holds: F) -> Self {
        Predicate::new(holds)
    }
}

// --- what is often asked ---

/// What should be has changed. Kinds that count no generations count versions.
pub fn generation_changed<T: Object>() -> Predicate<T> {
    changed(|old: &T, new: &T| match (old.generation(), new.generation()) {
        (None, None) => old.resource_version() != new.resource_version(),
        (old, new) => old != new,
    })
}

/// The labels have changed.
pub fn labels_changed<T: Object>() -> Predicate<T> {
    changed(|old: &T, new: &T| !old.labels().eq(new.labels()))
}

/// The annotations have changed.
pub fn annotations_changed<T: Object>() -> Predicate<T> {
    changed(|old: &T, new: &T| !old.annotations().eq(new.annotations()))
}

/// Anything has changed: a relist that brought nothing new does not matter.
pub fn resource_version_changed<T: Object>() -> Predicate<T> {
    changed(|old: &T, new: &T| old.resource_version() != new.resource_version())
}

/// The labels match, or did before the change.
pub fn label_selector<T: Object>(selector: &str) -> Result<Predicate<T>, ParseSelectorError> {
    let selector: Selector = selector.parse()?;
    Ok(Predicate::new(move |delta: &Delta<T>| {
        let objects = delta.old().into_iter().chain(delta.new());
        objects
            .into_iter()
            .any(|object| selector.matches(|name| object.label(name)))
    }))
}

fn changed<T: Object>(has_changed: impl Fn(&T, &T) -> bool + Send + Sync + 'static) -> Predicate<T> {
    Predicate::new(move |delta| match delta {
        Delta::Updated { old, new } | Delta::Replaced { old, new } => {
            has_changed(old, new) || old.is_terminating() != new.is_terminating() || old.uid() != new.uid()
        }
        Delta::Added { .. } | Delta::Deleted { .. } | Delta::Sync { .. } => true,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;

    fn map(change: &Value) -> Arc<ConfigMap> {
        let mut metadata = json!({"name": "a", "uid": "1", "generation": 1, "resourceVersion": "1"});
        for (name, value) in change.as_object().into_iter().flatten() {
            metadata[name] = value.clone();
        }
        Arc::new(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    fn update(change: &Value) -> Delta<ConfigMap> {
        let mut change = change.clone();
        change["resourceVersion"] = json!("2");
        Delta::Updated {
            old: map(&json!({})),
            new: map(&change),
        }
    }

    /// Everything but a change from old to new.
    fn others() -> [Delta<ConfigMap>; 3] {
        let object = || map(&json!({}));
        let added = Delta::Added {
            new: object(),
            initial: false,
        };
        let deleted = Delta::Deleted {
            last: object(),
            missed: true,
        };
        [added, deleted, Delta::Sync { object: object() }]
    }

    #[test]
    fn a_change_matters_to_those_who_asked_for_it_alone() {
        let changes = [
            (json!({"generation": 2}), [true, false, false]),
            (json!({"labels": {"a": "b"}}), [false, true, false]),
            (json!({"annotations": {"a": "b"}}), [false, false, true]),
            (
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
                [true, true, true],
            ),
            (json!({"uid": "2"}), [true, true, true]),
            (json!({}), [false, false, false]),
        ];
        let predicates = [generation_changed(), labels_changed(), annotations_changed()];
        for (change, expected) in changes {
            let delta = update(&change);
            let found = [0, 1, 2].map(|which: usize| predicates[which].holds(&delta));
            assert_eq!(found, expected, "{change}");
            assert!(resource_version_changed().holds(&delta), "{change}");
        }
        for delta in others() {
            assert!(
                predicates.iter().all(|predicate| predicate.holds(&delta)),
                "{delta:?}"
            );
        }
    }

    #[test]
    fn a_list_that_brings_nothing_new_does_not_matter() {
        let same = Delta::Replaced {
            old: map(&json!({})),
            new: map(&json!({})),
        };
        assert!(!resource_version_changed().holds(&same));
        assert!(!generation_changed().holds(&same));
    }

    #[test]
    fn kinds_without_generations_count_versions() {
        let old = map(&json!({"generation": null}));
        let new = map(&json!({"generation": null, "resourceVersion": "2"}));
        assert!(generation_changed().holds(&Delta::Updated { old, new }));
    }

    #[test]
    fn predicates_are_combined() {
        let [yes, no] = [true, false].map(|answer| Predicate::new(move |_: &Delta<ConfigMap>| answer));
        let delta = update(&json!({}));
        assert!(!yes.clone().and(no.clone()).holds(&delta));
        assert!(yes.clone().or(no.clone()).holds(&delta));
        assert!(no.clone().not().holds(&delta) && !(!yes.clone()).holds(&delta));
        assert!(
            yes.and(|delta: &Delta<ConfigMap>| delta.new().is_some())
                .holds(&delta)
        );
    }

    #[test]
    fn an_object_that_leaves_a_selector_is_still_seen_leaving() {
        let web = label_selector("app=web").unwrap();
        let [labelled, bare] = [json!({"labels": {"app": "web"}}), json!({})].map(|labels| map(&labels));
        let leaves = Delta::Updated {
            old: labelled,
            new: Arc::clone(&bare),
        };
        assert!(web.holds(&leaves));
        assert!(!web.holds(&Delta::Sync { object: bare }));
        assert!(label_selector::<ConfigMap>("app in web").is_err());
    }
}
