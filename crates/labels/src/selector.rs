//! Selectors: what labels must be like.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    sync::Arc,
};

use crate::{Labels, Operator, ParseError, Requirement, index::KeyIndex, parser};

/// What labels must be like: all requirements at once. A clone shares them.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use k3_labels::Selector;
///
/// let selector: Selector = "app=web,tier in (front, back)".parse().unwrap();
/// assert!(selector.matches(&BTreeMap::from([("app", "web"), ("tier", "back")])));
/// assert!(!selector.matches(&BTreeMap::from([("app", "web")])));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector(Objects);

/// Which objects a selector selects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Objects {
    Nothing,
    Everything,
    All(Arc<RequirementSet>),
}

/// At least one requirement.
#[derive(Debug)]
struct RequirementSet {
    /// Sorted by key.
    requirements: Box<[Requirement]>,
    /// The requirements once more if they are many: a list matches each of thousands of objects.
    index: Option<KeyIndex>,
}

/// From so many requirements on they are looked up rather than scanned.
const MANY_REQUIREMENTS: usize = 16;

// --- Selector ---

impl Selector {
    /// All objects, also those without labels.
    pub const EVERYTHING: Selector = Selector(Objects::Everything);

    /// No object.
    pub const NOTHING: Selector = Selector(Objects::Nothing);

    /// All of these at once.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        if requirements.is_empty() {
            return Selector::EVERYTHING;
        }
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        let index = (requirements.len() >= MANY_REQUIREMENTS).then(|| KeyIndex::new(&requirements));
        let requirements = requirements.into();
        Selector(Objects::All(Arc::new(RequirementSet { requirements, index })))
    }

    /// The selector of exactly these labels, taken as valid, as Services and ReplicationControllers have it.
    // upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go SelectorFromValidatedSet
    pub fn from_labels<K: Into<String>, V: Into<String>>(labels: impl IntoIterator<Item = (K, V)>) -> Self {
        let labels = labels.into_iter();
        Selector::new(
            labels
                .map(|(key, value)| Requirement::equals(key, value))
                .collect(),
        )
    }

    /// This and more requirements.
    #[must_use]
    pub fn and(self, more: &[Requirement]) -> Self {
        if more.is_empty() || self.is_nothing() {
            return self;
        }
        Selector::new([self.requirements(), more].concat())
    }

    /// Whether labels are as they must be.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        if let Objects::All(set) = &self.0
            && let Some(index) = &set.index
        {
            return index.matches(labels);
        }
        self.matches_with(|key| labels.get(key))
    }

    /// Whether labels are as they must be, where they can only be looked up.
    pub fn matches_with<'l>(&self, mut get: impl FnMut(&str) -> Option<&'l str>) -> bool {
        match &self.0 {
            Objects::Nothing => false,
            Objects::Everything => true,
            Objects::All(set) => set
                .requirements
                .iter()
                .all(|one| one.matches_value(get(one.key()))),
        }
    }

    /// Whether every object is meant.
    // upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go Empty
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Objects::Everything)
    }

    /// Whether no object is meant.
    pub fn is_nothing(&self) -> bool {
        matches!(self.0, Objects::Nothing)
    }

    /// What is asked for, by key; empty if nothing is meant.
    pub fn requirements(&self) -> &[Requirement] {
        match &self.0 {
            Objects::Nothing | Objects::Everything => &[],
            Objects::All(set) => &set.requirements,
        }
    }

    /// The one value a label must have, if it must have one: an index by that label then finds all objects.
    // upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go RequiresExactMatch
    pub fn exact(&self, key: &str) -> Option<&str> {
        let one = self.requirements().iter().find(|one| one.key() == key)?;
        match (one.operator(), one.values()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl Default for Selector {
    fn default() -> Self {
        Selector::EVERYTHING
    }
}

impl FromStr for Selector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parser::parse(text).map(Selector::new)
    }
}

// Generic code takes objects whose selector is one, or contains one.
impl AsRef<Selector> for Selector {
    fn as_ref(&self) -> &Selector {
        self
    }
}

// --- RequirementSet ---

// The index is a function of the requirements.
impl PartialEq for RequirementSet {
    fn eq(&self, other: &Self) -> bool {
        self.requirements == other.requirements
    }
}

impl Eq for RequirementSet {}

impl Hash for RequirementSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.requirements.hash(state);
    }
}

/// The one text for a selector: requirements by key, values of sets sorted.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, one) in self.requirements().iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            one.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn selector(text: &str) -> Selector {
        text.parse().unwrap()
    }

    #[test]
    fn objects_are_read_as_upstream_reads_them() {
        let read = |object| serde_json::from_value::<Selector>(object).unwrap();
        let labels = BTreeMap::from([("app", "web"), ("zone", "a")]);
        let all = read(json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["db"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "zone", "operator": "Exists"},
            ],
        }));
        assert_eq!(all.to_string(), "app=web,!old,tier notin (db),zone");
        assert!(all.matches(&labels));
        assert!(read(json!({})).is_empty() && read(json!({})).matches(&BTreeMap::<String, String>::new()));
        for invalid in [
            json!({"key": "app", "operator": "Like", "values": ["web"]}),
            json!({"key": "app", "operator": "Lt", "values": ["5"]}),
            json!({"key": "app", "operator": "In"}),
            json!({"key": "a b", "operator": "Exists"}),
        ] {
            let nothing = read(json!({"matchExpressions": [invalid]}));
            assert!(nothing.is_nothing() && !nothing.matches(&labels), "{invalid}");
        }
    }

    #[test]
    fn labels_become_a_selector_of_their_values() {
        let labels = BTreeMap::from([("b", "2"), ("a", "1")]);
        let exactly = Selector::from_labels(labels.clone());
        assert_eq!(exactly.to_string(), "a=1,b=2");
        assert!(exactly.matches(&labels));
        assert_eq!(
            Selector::from_labels(BTreeMap::<String, String>::new()),
            Selector::EVERYTHING
        );
    }

    #[test]
    fn invalid_texts_are_refused_with_their_reason() {
        for (text, reason) in [
            ("=web", "found '=', expected: !, identifier, or 'end of string'"),
            (
                "app=web tier=db",
                "found 'tier', expected: ',' or 'end of string'",
            ),
            (
                "app in web",
                "unable to parse requirement: found 'web' expected: '('",
            ),
            (
                "a b=c",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "~=c",
                "unable to parse requirement: key \"~\": name part must consist of",
            ),
            (
                "size>many",
                "unable to parse requirement: value \"many\" of \"size\": for 'Gt', 'Lt' operators",
            ),
            (
                "app=-",
                "unable to parse requirement: value \"-\" of \"app\": a valid label must be",
            ),
        ] {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn looking_labels_up_matches_as_visiting_them_does(
            parts in prop::collection::vec(("[a-h]", 0..5_usize, "[0-2]"), 0..24),
            labels in prop::collection::btree_map("[a-h]", "[0-3]", 0..8),
        ) {
            let parts = parts.iter().map(|(key, operator, value)| match operator {
                0 => format!("{key}={value}"),
                1 => format!("{key}!={value}"),
                2 => format!("!{key}"),
                3 => format!("{key}>{value}"),
                _ => format!("{key} in ({value},1)"),
            });
            let selector = selector(&parts.collect::<Vec<_>>().join(","));
            let found = selector.matches_with(|key| labels.get(key).map(String::as_str));
            prop_assert_eq!(found, selector.matches(&labels));
        }
    }
}
