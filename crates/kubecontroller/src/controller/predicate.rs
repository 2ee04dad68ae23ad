//! Predicates: which changes cause a reconcile.
//!
//! The predicates of this module that compare the old and the new state always pass additions, deletions, and updates that start
//! the deletion or replace the object: a controller that watches the generation must not miss that it has to clean up. They also
//! pass resyncs, whose purpose is to reconcile again without a change.

use std::sync::Arc;

use crate::{
    informer::Delta,
    object::Object,
    selector::{ParseError, Selector},
};

/// Decides whether a change causes a reconcile. Any closure over a [`Delta`] converts into one.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kubecontroller::{
///     controller::{Predicate, generation_changed, labels_changed},
///     informer::Delta,
/// };
///
/// let scheduled = |delta: &Delta<Pod>| delta.object().spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
/// let predicate = generation_changed().or(labels_changed()).and(scheduled);
/// # let _: Predicate<Pod> = predicate;
/// ```
pub struct Predicate<T> {
    matches: PredicateFn<T>,
}

type PredicateFn<T> = Arc<dyn Fn(&Delta<T>) -> bool + Send + Sync>;

// --- Predicate ---

impl<T> Predicate<T> {
    /// A predicate from a closure.
    pub fn new(matches: impl Fn(&Delta<T>) -> bool + Send + Sync + 'static) -> Self {
        Predicate {
            matches: Arc::new(matches),
        }
    }

    /// Whether a change passes.
    pub fn matches(&self, delta: &Delta<T>) -> bool {
        (self.matches)(delta)
    }
}

impl<T: 'static> Predicate<T> {
    /// Passes changes that pass both predicates.
    #[must_use]
    pub fn and(self, other: impl Into<Predicate<T>>) -> Self {
        let other = other.into();
        Predicate::new(move |delta| self.matches(delta) && other.matches(delta))
    }

    /// Passes changes that pass one of the predicates.
    #[must_use]
    pub fn or(self, other: impl Into<Predicate<T>>) -> Self {
        let other = other.into();
        Predicate::new(move |delta| self.matches(delta) || other.matches(delta))
    }

    /// Passes changes that do not pass this predicate.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "`a.and(b).not()` reads left to right; the operator `!` exists as well"
    )]
    pub fn not(self) -> Self {
        Predicate::new(move |delta| !self.matches(delta))
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
            matches: Arc::clone(&self.matches),
        }
    }
}

impl<T, F: Fn(&Delta<T>) -> bool + Send + Sync + 'static> From<F> for Predicate<T> {
    fn from(matches: F) -> Self {
        Predicate::new(matches)
    }
}

// --- common predicates ---

/// Passes updates that change `metadata.generation`, which is to say the spec: controller-runtime's
/// `GenerationChangedPredicate`. For kinds without a generation, every new resource version passes.
#[doc(alias = "GenerationChangedPredicate")]
pub fn generation_changed<T: Object>() -> Predicate<T> {
    changed(|old: &T, new: &T| match (old.generation(), new.generation()) {
        (None, None) => old.resource_version() != new.resource_version(),
        (old, new) => old != new,
    })
}

/// Passes updates that change the labels: controller-runtime's `LabelChangedPredicate`.
#[doc(alias = "LabelChangedPredicate")]
pub fn labels_changed<T: Object>() -> Predicate<T> {
    changed(|old: &T, new: &T| !old.labels().eq(new.labels()))
}

/// Passes updates that change the annotations: controller-runtime's `AnnotationChangedPredicate`.
#[doc(alias = "AnnotationChangedPredicate")]
pub fn annotations_changed<T: Object>() -> Predicate<T> {
    changed(|old: &T, new: &T| !old.annotations().eq(new.annotations()))
}

/// Passes updates with a new resource version: controller-runtime's `ResourceVersionChangedPredicate`. It drops what a relist
/// returns unchanged.
#[doc(alias = "ResourceVersionChangedPredicate")]
pub fn resource_version_changed<T: Object>() -> Predicate<T> {
    changed(|old: &T, new: &T| old.resource_version() != new.resource_version())
}

/// Passes objects whose labels match a selector, or matched it before the change, so that a controller sees an object leave.
pub fn label_selector<T: Object>(selector: &str) -> Result<Predicate<T>, ParseError> {
    let selector: Selector = selector.parse()?;
    Ok(Predicate::new(move |delta: &Delta<T>| {
        let objects = delta.old().into_iter().chain(delta.new());
        objects
            .into_iter()
            .any(|object| selector.matches_with(|name| object.label(name)))
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

    /// An addition, a deletion and a resync.
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
    fn each_predicate_passes_only_its_own_changes() {
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
            let found = [0, 1, 2].map(|which: usize| predicates[which].matches(&delta));
            assert_eq!(found, expected, "{change}");
            assert!(resource_version_changed().matches(&delta), "{change}");
        }
        for delta in others() {
            assert!(
                predicates.iter().all(|predicate| predicate.matches(&delta)),
                "{delta:?}"
            );
        }
    }

    #[test]
    fn an_unchanged_relist_does_not_pass() {
        let same = Delta::Replaced {
            old: map(&json!({})),
            new: map(&json!({})),
        };
        assert!(!resource_version_changed().matches(&same));
        assert!(!generation_changed().matches(&same));
    }

    #[test]
    fn resource_versions_replace_missing_generations() {
        let old = map(&json!({"generation": null}));
        let new = map(&json!({"generation": null, "resourceVersion": "2"}));
        assert!(generation_changed().matches(&Delta::Updated { old, new }));
    }

    #[test]
    fn predicates_can_be_combined() {
        let [yes, no] = [true, false].map(|answer| Predicate::new(move |_: &Delta<ConfigMap>| answer));
        let delta = update(&json!({}));
        assert!(!yes.clone().and(no.clone()).matches(&delta));
        assert!(yes.clone().or(no.clone()).matches(&delta));
        assert!(no.clone().not().matches(&delta) && !(!yes.clone()).matches(&delta));
        assert!(
            yes.and(|delta: &Delta<ConfigMap>| delta.new().is_some())
                .matches(&delta)
        );
    }

    #[test]
    fn label_selector_passes_an_object_that_no_longer_matches() {
        let web = label_selector("app=web").unwrap();
        let [labelled, bare] = [json!({"labels": {"app": "web"}}), json!({})].map(|labels| map(&labels));
        let no_longer_matches = Delta::Updated {
            old: labelled,
            new: Arc::clone(&bare),
        };
        assert!(web.matches(&no_longer_matches));
        assert!(!web.matches(&Delta::Sync { object: bare }));
        assert!(label_selector::<ConfigMap>("app in web").is_err());
    }
}
