//! The selection of controllers to run.

/// Which controllers run, selected by the names of controllers or of their resources. Default: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerSelection {
    /// Names and whether they run. The last matching rule applies; without rules, all controllers run.
    rules: Vec<(RuleTarget, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RuleTarget {
    All,
    Named(String),
}

/// Why a list selects no controllers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// An entry has no name.
    #[error("{0:?} is not the name of a controller")]
    NotAName(String),
    /// Two entries contradict each other.
    #[error("{0} is both enabled and disabled")]
    Contradiction(String),
    /// There is no entry.
    #[error("the list of controllers is empty: omit it to run all of them")]
    Empty,
}

// --- ControllerSelection ---

impl ControllerSelection {
    /// Selects the named controllers; all if the list is empty.
    pub fn only(names: Vec<String>) -> Self {
        ControllerSelection {
            rules: names
                .into_iter()
                .map(|name| (RuleTarget::Named(name), true))
                .collect(),
        }
    }

    /// Parses a list in which `*` enables all, `x` enables `x` and `-x` disables it. Controllers without a match do not run.
    // upstream: staging/src/k8s.io/controller-manager/app/helper.go IsControllerEnabled
    pub fn parse(names: &[String]) -> Result<Self, SelectionError> {
        let mut rules = Vec::new();
        for word in names {
            let (name, runs) = match word.strip_prefix('-') {
                Some(name) => (name, false),
                None => (word.as_str(), true),
            };
            let target = match name {
                "*" => RuleTarget::All,
                "" => return Err(SelectionError::NotAName(word.clone())),
                name => RuleTarget::Named(name.to_owned()),
            };
            let is_contradiction = rules
                .iter()
                .any(|(known, other)| *known == target && *other != runs);
            if is_contradiction {
                return Err(SelectionError::Contradiction(name.to_owned()));
            }
            rules.push((target, runs));
        }
        if rules.is_empty() {
            return Err(SelectionError::Empty);
        }
        // A name overrides `*`, wherever it is in the list.
        rules.sort_by_key(|(target, _)| *target != RuleTarget::All);
        Ok(ControllerSelection { rules })
    }

    /// Whether a controller is enabled.
    pub fn has(&self, name: &str, resource: &str) -> bool {
        let fits = |target: &RuleTarget| match target {
            RuleTarget::All => true,
            RuleTarget::Named(wanted) => wanted == name || wanted == resource,
        };
        let rule = self.rules.iter().rev().find(|(target, _)| fits(target));
        rule.map_or(self.rules.is_empty(), |(_, runs)| *runs)
    }

    /// The names for which `is_known` returns false.
    pub(super) fn unknown(&self, is_known: impl Fn(&str) -> bool) -> Vec<&str> {
        let named = self.rules.iter().filter_map(|(target, _)| match target {
            RuleTarget::All => None,
            RuleTarget::Named(name) => Some(name.as_str()),
        });
        named.filter(|name| !is_known(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::ControllerSelection;

    fn names(text: &str) -> Vec<String> {
        text.split(',')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn selects_by_name_or_resource() {
        let chosen = |text: &str| {
            let selection = ControllerSelection::parse(&names(text)).unwrap();
            [("at", "ats"), ("dummy", "dummies"), ("job", "jobs")]
                .map(|(name, resource)| selection.has(name, resource))
        };
        assert_eq!(chosen("*"), [true, true, true]);
        assert_eq!(chosen("*,-dummy"), [true, false, true]);
        assert_eq!(chosen("-dummies,*"), [true, false, true]);
        assert_eq!(chosen("at,jobs"), [true, false, true]);
        assert_eq!(chosen("-at"), [false, false, false]);
        assert!(ControllerSelection::parse(&names("a,-a")).is_err());
        assert!(ControllerSelection::parse(&names("-")).is_err());
    }

    #[test]
    fn empty_selection_enables_all() {
        assert!(ControllerSelection::default().has("at", "ats"));
        assert!(ControllerSelection::only(Vec::new()).has("at", "ats"));
        let only = ControllerSelection::only(names("ats"));
        assert!(only.has("at", "ats") && !only.has("dummy", "dummies"));
        assert_eq!(
            ControllerSelection::only(names("ats,bats")).unknown(|name| name == "ats"),
            ["bats"]
        );
    }
}
