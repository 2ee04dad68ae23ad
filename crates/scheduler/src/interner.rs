//! Values that many objects share are kept once.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use hashbrown::{HashMap, HashSet};
use k3_workloads::{Affinity, Shared, SharedList, StringMap, TemplateSpec, Volume};

use crate::{labels::Labels, object::Spec};

/// A string that is shared.
pub type Text = Arc<str>;

/// Values that are kept once. What nothing refers to any more is dropped in time: the pool stays within a small
/// factor of what is in use.
#[derive(Debug)]
pub struct Interner<T: ?Sized> {
    known: HashSet<Arc<T>>,
    sweep_at: usize,
}

/// The pools of a scheduler.
#[derive(Debug, Default)]
pub struct StringInterner {
    /// Names, keys and values.
    pub texts: Interner<str>,
    /// Sets of labels.
    pub labels: Interner<Labels>,
    /// What pods of one template have in common.
    pub specs: Interner<Spec>,
    /// The labels that were derived from decoded ones.
    pub(crate) derived_labels: DerivedValues<LabelsSource, Labels>,
    /// The specs that were derived from decoded ones.
    pub(crate) derived_specs: DerivedValues<SpecSource, Spec>,
}

/// Interned values by what they were derived from, so that most events of a pod derive nothing. Values that nothing else uses are
/// dropped in time.
#[derive(Debug)]
pub(crate) struct DerivedValues<S, T> {
    known: HashMap<S, Arc<T>>,
    sweep_at: usize,
}

/// Decoded labels. Equal ones have one address, so that neither hashing nor comparing reads them.
#[derive(Debug)]
pub(crate) struct LabelsSource(pub(crate) StringMap);

/// What a spec is derived from. Equal parts have one address.
#[derive(Debug)]
pub(crate) struct SpecSource {
    pub(crate) namespace: Text,
    pub(crate) template: Shared<TemplateSpec>,
    pub(crate) affinity: Option<Shared<Affinity>>,
    pub(crate) volumes: SharedList<Volume>,
}

const FIRST_SWEEP: usize = 1024;

impl<T: ?Sized + Eq + Hash> Default for Interner<T> {
    fn default() -> Self {
        Interner {
            known: HashSet::new(),
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    fn keep(&mut self, value: Arc<T>) -> Arc<T> {
        if self.known.len() >= self.sweep_at {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = FIRST_SWEEP.max(self.known.len() * 2);
        }
        self.known.insert(value.clone());
        value
    }
}

impl Interner<str> {
    /// The shared copy of a string.
    pub fn text(&mut self, value: &str) -> Text {
        match self.known.get(value) {
            Some(known) => known.clone(),
            None => self.keep(value.into()),
        }
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// The shared copy of a value.
    pub fn share(&mut self, value: T) -> Arc<T> {
        match self.known.get(&value) {
            Some(known) => known.clone(),
            None => self.keep(Arc::new(value)),
        }
    }
}

impl StringInterner {
    /// The shared copy of a string.
    pub fn text(&mut self, value: &str) -> Text {
        self.texts.text(value)
    }
}

// --- DerivedValues ---

impl<S, T> Default for DerivedValues<S, T> {
    fn default() -> Self {
        DerivedValues {
            known: HashMap::new(),
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl<S: Eq + Hash, T> DerivedValues<S, T> {
    pub(crate) fn get(&self, source: &S) -> Option<Arc<T>> {
        self.known.get(source).cloned()
    }

    /// Remembers an interned value.
    pub(crate) fn insert(&mut self, source: S, value: Arc<T>) {
        if self.known.len() >= self.sweep_at {
            let mut references: HashMap<*const T, usize> = HashMap::new();
            for value in self.known.values() {
                *references.entry(Arc::as_ptr(value)).or_default() += 1;
            }
            // Besides these references there is that of the interner.
            self.known.retain(|_, value| {
                let own = references.get(&Arc::as_ptr(value)).map_or(1, |count| count + 1);
                Arc::strong_count(value) > own
            });
            self.sweep_at = FIRST_SWEEP.max(self.known.len() * 2);
        }
        self.known.insert(source, value);
    }
}

// --- LabelsSource ---

impl PartialEq for LabelsSource {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }
}

impl Eq for LabelsSource {}

impl Hash for LabelsSource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}

// --- SpecSource ---

impl SpecSource {
    fn addresses(&self) -> (*const TemplateSpec, Option<*const Affinity>, *const Volume) {
        (
            self.template.as_ptr(),
            self.affinity.as_ref().map(Shared::as_ptr),
            self.volumes.as_ptr(),
        )
    }
}

impl PartialEq for SpecSource {
    fn eq(&self, other: &Self) -> bool {
        self.addresses() == other.addresses() && self.namespace == other.namespace
    }
}

impl Eq for SpecSource {}

impl Hash for SpecSource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.addresses().hash(state);
        self.namespace.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_value() {
        let mut interner = Interner::default();
        assert!(Arc::ptr_eq(&interner.text("a"), &interner.text("a")));
    }

    #[test]
    fn derived_values_that_nothing_uses_are_dropped() {
        let mut values = DerivedValues::default();
        let mut interned = Vec::new();
        let used: Vec<_> = (0..10).map(Arc::new).collect();
        for number in 0..10 * FIRST_SWEEP {
            let value = used.get(number).cloned().unwrap_or_else(|| Arc::new(number));
            interned.push(Arc::clone(&value));
            values.insert(number, value);
        }
        assert!(values.known.len() <= FIRST_SWEEP, "{}", values.known.len());
        assert!((0..10).all(|number| values.get(&number).is_some()));
    }

    #[test]
    fn what_nothing_uses_is_dropped() {
        let mut interner = Interner::default();
        let kept = interner.text("kept");
        for number in 0..10 * FIRST_SWEEP {
            interner.text(&number.to_string());
        }
        assert!(interner.known.len() <= 2 * FIRST_SWEEP);
        assert!(Arc::ptr_eq(&kept, &interner.text("kept")));
    }
}
