//! Finds objects by namespace and label selector, with the best index.

use super::index::{IndexData, IndexKind};
use crate::{
    Key,
    object::Object,
    selector::{Operator, Selector},
};

pub(super) struct LabelQuery<'q> {
    pub(super) namespace: Option<&'q str>,
    pub(super) selector: &'q Selector,
}

// --- LabelQuery ---

impl LabelQuery<'_> {
    pub(super) fn matches(&self, object: &impl Object) -> bool {
        let is_in_namespace = self
            .namespace
            .is_none_or(|namespace| object.namespace() == namespace);
        is_in_namespace && self.selector.matches_with(|label| object.label(label))
    }

    /// The keys in the index with the fewest candidates. Every match is among them. `None` if no index applies.
    pub(super) fn candidates<'index, T>(
        &'index self,
        indexes: &'index [IndexData<T>],
    ) -> Option<impl Iterator<Item = &'index Key>> {
        let by_namespace = self
            .namespace
            .map(|namespace| (IndexKind::Namespace, vec![namespace]));
        let by_labels = self.selector.requirements().iter().filter_map(|requirement| {
            let is_listed = matches!(
                requirement.operator(),
                Operator::Equals | Operator::DoubleEquals | Operator::In
            );
            let values = || requirement.values().iter().map(String::as_str).collect();
            is_listed.then(|| (IndexKind::Label(requirement.key().to_owned()), values()))
        });
        let usable = by_namespace
            .into_iter()
            .chain(by_labels)
            .filter_map(|(kind, values)| {
                let index = indexes.iter().find(|index| index.is_shared_as(&kind))?;
                let count: usize = values.iter().map(|value| index.count(value)).sum();
                Some((count, index, values))
            });
        let (_, index, values) = usable.min_by_key(|(count, ..)| *count)?;
        Some(values.into_iter().flat_map(|value| index.keys(value)))
    }
}
