//! The labels of an object.

use std::sync::Arc;

use k3_workloads::StringMap;
use kubecontroller::selector;

use crate::interner::{LabelsSource, StringInterner, Text};

/// Labels, sorted by key. Objects have few: they are searched from the front.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Text, Text)]>);

impl Labels {
    /// Takes labels as they were read.
    pub fn read<'l>(
        labels: impl IntoIterator<Item = (&'l str, &'l str)>,
        interner: &mut StringInterner,
    ) -> Self {
        let labels = labels.into_iter();
        let mut pairs: Vec<_> = labels
            .map(|(key, value)| (interner.text(key), interner.text(value)))
            .collect();
        pairs.sort();
        Labels(pairs.into())
    }

    /// The labels, derived once for all objects that have these labels.
    pub(crate) fn derive(labels: &StringMap, interner: &mut StringInterner) -> Arc<Self> {
        let source = LabelsSource(labels.clone());
        if let Some(derived) = interner.derived_labels.get(&source) {
            return derived;
        }
        let derived = Labels::read(labels.iter(), interner);
        let derived = interner.labels.share(derived);
        interner.derived_labels.insert(source, Arc::clone(&derived));
        derived
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&Text> {
        self.0
            .iter()
            .find(|(known, _)| &**known == key)
            .map(|(_, value)| value)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl selector::Labels for Labels {
    fn get(&self, key: &str) -> Option<&str> {
        Labels::get(self, key).map(|value| &**value)
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        for (key, value) in &self.0 {
            see(key, value);
        }
    }
}
