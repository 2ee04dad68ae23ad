//! Finds objects by namespace and label selector, with the best index.

use kube::core::{Expression, Selector};

use super::index::{IndexData, IndexKind};
use crate::{Key, object::Object};

pub(super) struct LabelQuery<'q> {
    namespace: Option<&'q str>,
    expressions: Vec<Expression>,
}

// --- LabelQuery ---

impl<'q> LabelQuery<'q> {
    pub(super) fn new(namespace: Option<&'q str>, selector: &Selector) -> Self {
        LabelQuery {
            namespace,
            expressions: selector.clone().into_iter().collect(),
        }
    }

    pub(super) fn matches(&self, object: &impl Object) -> bool {
        let is_in_namespace = self
            .namespace
            .is_none_or(|namespace| object.namespace() == namespace);
        is_in_namespace
            && self
                .expressions
                .iter()
                .all(|expression| matches_expression(expression, object))
    }

    /// The keys in the index with the fewest candidates. Every match is among them. `None` if no index applies.
    pub(super) fn candidates<'index, T>(
        &'index self,
        indexes: &'index [IndexData<T>],
    ) -> Option<impl Iterator<Item = &'index Key>> {
        let by_namespace = self
            .namespace
            .map(|namespace| (IndexKind::Namespace, vec![namespace]));
        let by_labels = self.expressions.iter().filter_map(|expression| {
            let (label, values) = match expression {
                Expression::Equal(label, value) => (label, vec![value.as_str()]),
                Expression::In(label, values) => (label, values.iter().map(String::as_str).collect()),
                _ => return None,
            };
            Some((IndexKind::Label(label.clone()), values))
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

fn matches_expression(expression: &Expression, object: &impl Object) -> bool {
    let is_one_of = |label: &str, values: &std::collections::BTreeSet<String>| {
        object.label(label).is_some_and(|value| values.contains(value))
    };
    match expression {
        Expression::Equal(label, value) => object.label(label) == Some(value),
        Expression::NotEqual(label, value) => object.label(label) != Some(value),
        Expression::In(label, values) => is_one_of(label, values),
        Expression::NotIn(label, values) => !is_one_of(label, values),
        Expression::Exists(label) => object.label(label).is_some(),
        Expression::DoesNotExist(label) => object.label(label).is_none(),
    }
}
