//! One rule of a role: which verbs on which resources or paths.

use k3_api::{
    go::quote,
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};

use super::super::{Action, What};

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    pub verbs: Words,
    pub groups: Words,
    pub resources: Words,
    /// The names of objects; none means all.
    pub names: Words,
    /// Paths that are no resources, perhaps with a `*` at the end.
    pub paths: Words,
}

/// A list of words, most of them short.
pub(crate) type Words = Box<[Box<str>]>;

const ALL: &str = "*";

// --- Rule ---

impl Rule {
    /// The rules of a role.
    pub(crate) fn all_of(role: &Value) -> Vec<Self> {
        role.items("rules").iter().map(Self::read).collect()
    }

    fn read(rule: &Value) -> Self {
        let words = |name| rule.texts(name).map(Box::from).collect();
        Rule {
            verbs: words("verbs"),
            groups: words("apiGroups"),
            resources: words("resources"),
            names: words("resourceNames"),
            paths: words("nonResourceURLs"),
        }
    }

    /// A rule that allows everything of its sort: all resources, or all paths.
    pub(crate) fn everything() -> [Self; 2] {
        let all = || Words::from([Box::from(ALL)]);
        let resources = Rule {
            verbs: all(),
            groups: all(),
            resources: all(),
            ..Rule::default()
        };
        let paths = Rule {
            verbs: all(),
            paths: all(),
            ..Rule::default()
        };
        [resources, paths]
    }

    /// Whether it allows something.
    pub(crate) fn allows(&self, action: &Action<'_>) -> bool {
        if !has_or_all(&self.verbs, action.verb) {
            return false;
        }
        match &action.what {
            What::Object(object) => {
                has_or_all(&self.groups, object.group)
                    && self
                        .resources
                        .iter()
                        .any(|resource| names(resource, object.resource, object.subresource))
                    && (self.names.is_empty() || has(&self.names, object.name))
            }
            What::Path(path) => self.paths.iter().any(|own| leads_to(own, path)),
        }
    }

    /// Whether it allows all that another one does.
    pub(crate) fn covers(&self, other: &Rule) -> bool {
        let all = |own: &Words, others: &Words| has(own, ALL) || others.iter().all(|word| has(own, word));
        let names = if other.names.is_empty() {
            self.names.is_empty()
        } else {
            self.names.is_empty() || other.names.iter().all(|name| has(&self.names, name))
        };
        names
            && all(&self.verbs, &other.verbs)
            && all(&self.groups, &other.groups)
            && (has(&self.resources, ALL)
                || other.resources.iter().all(|resource| self.has_resource(resource)))
            && other
                .paths
                .iter()
                .all(|path| self.paths.iter().any(|own| own == path || leads_to(own, path)))
    }

    fn has_resource(&self, resource: &str) -> bool {
        let of_all = |own: &str, part: &str| own.strip_prefix("*/") == Some(part);
        has(&self.resources, resource)
            || resource
                .split_once('/')
                .is_some_and(|(_, part)| self.resources.iter().any(|own| of_all(own, part)))
    }

    /// Whether it allows all verbs, groups or resources of some sort.
    pub(crate) fn is_broad(&self) -> bool {
        has(&self.verbs, ALL)
            && (has(&self.groups, ALL) || has(&self.resources, ALL) || has(&self.paths, ALL))
    }

    /// How many combinations of a verb with a resource or a path it has; `None` if they cannot be counted.
    pub(crate) fn combinations(&self) -> Option<usize> {
        let names = self.names.len().max(1);
        let parts = [self.groups.len(), self.resources.len(), self.verbs.len(), names];
        let combinations = parts
            .iter()
            .try_fold(1usize, |product, part| product.checked_mul(*part))?;
        combinations.checked_add(self.paths.len().checked_mul(self.verbs.len())?)
    }

    /// How many words it has.
    pub(crate) fn words(&self) -> usize {
        let all = [
            &self.verbs,
            &self.groups,
            &self.resources,
            &self.names,
            &self.paths,
        ];
        all.iter().map(|words| words.len()).sum()
    }

    /// The rule in one line, as it is told to who may not give it away.
    pub(crate) fn short(&self) -> String {
        let parts: Vec<_> = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ]
        .into_iter()
        .filter(|(_, words)| !words.is_empty())
        .map(|(name, words)| format!("{name}:{}", quoted(words)))
        .collect();
        format!("{{{}}}", parts.join(", "))
    }

    /// The rule as a review of rules shows it: what it says of resources.
    pub(crate) fn of_resources(&self) -> Option<Value> {
        let mut rule = json!({"verbs": self.verbs, "apiGroups": self.groups, "resources": self.resources});
        if !self.names.is_empty() {
            rule.set("resourceNames", json!(self.names));
        }
        (!self.resources.is_empty()).then_some(rule)
    }

    /// The same for what it says of paths.
    pub(crate) fn of_paths(&self) -> Option<Value> {
        (!self.paths.is_empty()).then(|| json!({"verbs": self.verbs, "nonResourceURLs": self.paths}))
    }
}

fn has(words: &Words, word: &str) -> bool {
    words.iter().any(|own| **own == *word)
}

fn has_or_all(words: &Words, word: &str) -> bool {
    words.iter().any(|own| **own == *ALL || **own == *word)
}

/// Whether a resource in a rule, such as `pods`, `pods/log`, `*/scale` or `*`, means a resource and its part.
fn names(own: &str, resource: &str, part: &str) -> bool {
    if own == ALL {
        return true;
    }
    if part.is_empty() {
        return own == resource;
    }
    let rest = |of: &str| {
        let rest = own.strip_prefix(of).and_then(|rest| rest.strip_prefix('/'));
        rest == Some(part)
    };
    rest(resource) || rest(ALL)
}

/// Whether a path in a rule means a path.
pub(crate) fn leads_to(own: &str, path: &str) -> bool {
    own == ALL || own == path || (own.ends_with('*') && path.starts_with(own.trim_end_matches('*')))
}

/// A list of texts as Go shows it.
pub(crate) fn quoted(words: &[impl AsRef<str>]) -> String {
    let words: Vec<_> = words.iter().map(|word| quote(word.as_ref())).collect();
    format!("[{}]", words.join(" "))
}
