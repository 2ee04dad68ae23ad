//! The values of the fields that objects of a resource can be selected by.

use k3_api::strategy::SelectableField;
use serde_json::Value;

/// The values in one object, in the order in which the kind names the fields. One text: many objects are kept, and most values
/// are short.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldValues {
    text: Box<str>,
    /// Where each value ends in `text`.
    ends: Box<[u32]>,
}

// --- FieldValues ---

impl FieldValues {
    /// Reads the fields from the tree of an object.
    pub(super) fn read(selectable: &[SelectableField], tree: &Value) -> Self {
        let mut text = String::new();
        let mut ends = Vec::with_capacity(selectable.len());
        for field in selectable {
            text.push_str(&field.get(tree));
            // No object is stored that is larger.
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        FieldValues {
            text: text.into(),
            ends: ends.into(),
        }
    }

    /// The value of the field at a position; empty if there is no such field.
    pub(super) fn get(&self, position: usize) -> &str {
        let Some(end) = self.ends.get(position) else {
            return "";
        };
        let start = match position {
            0 => 0,
            _ => self.ends[position - 1],
        };
        self.text.get(start as usize..*end as usize).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_found_by_position() {
        let field = |name: &str| SelectableField::at(vec!["spec".to_owned(), name.to_owned()]);
        let tree = json!({"spec": {"a": "one", "c": "three"}});
        let values = FieldValues::read(&[field("a"), field("b"), field("c")], &tree);
        let found = [0, 1, 2, 3].map(|position| values.get(position));
        assert_eq!(found, ["one", "", "three", ""]);
    }
}
