//! Which controllers run.

/// Which controllers run, by their names or the names of their resources. All unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerSelection {
    /// In order: a name, or all, and whether it runs. The last one that fits counts; without any, all run.
    rules: Vec<(Which, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    All,
    Named(String),
}

// --- ControllerSelection ---

impl ControllerSelection {
    /// Only these; all if there are none.
    pub fn only(names: Vec<String>) -> Self {
        ControllerSelection {
            rules: names.into_iter().map(|name| (Which::Named(name), true)).collect(),
        }
    }

    /// `*` is all, `-x` is not `x`, `x` is `x`. What nothing is said about does not run.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let mut rules = Vec::new();
        for word in words {
            let (name, runs) = match word.strip_prefix('-') {
                Some(name) => (name, false),
                None => (word.as_str(), true),
            };
            let which = match name {
                "*" => Which::All,
                "" => return Err(format!("{word:?} names no controller")),
                name => Which::Named(name.to_owned()),
            };
            let is_twice = rules
                .iter()
                .any(|(known, other)| *known == which && *other != runs);
            if is_twice {
                return Err(format!("{name} is both wanted and not wanted"));
            }
            rules.push((which, runs));
        }
        if rules.is_empty() {
            return Err("no controllers at all; leave it out to run all of them".to_owned());
        }
        // A name says more than `*`, wherever it stands.
        rules.sort_by_key(|(which, _)| *which != Which::All);
        Ok(ControllerSelection { rules })
    }

    /// Whether a controller runs.
    pub fn has(&self, name: &str, resource: &str) -> bool {
        let fits = |which: &Which| match which {
            Which::All => true,
            Which::Named(wanted) => wanted == name || wanted == resource,
        };
        let rule = self.rules.iter().rev().find(|(which, _)| fits(which));
        rule.map_or(self.rules.is_empty(), |(_, runs)| *runs)
    }

    /// The names in it that are nobody's.
    pub(super) fn unknown(&self, is_known: impl Fn(&str) -> bool) -> Vec<&str> {
        let named = self.rules.iter().filter_map(|(which, _)| match which {
            Which::All => None,
            Which::Named(name) => Some(name.as_str()),
        });
        named.filter(|name| !is_known(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::ControllerSelection;

    fn words(text: &str) -> Vec<String> {
        text.split(',')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn controllers_are_chosen_by_name_or_by_resource() {
        let chosen = |text: &str| {
            let selection = ControllerSelection::parse(&words(text)).unwrap();
            [("at", "ats"), ("dummy", "dummies"), ("job", "jobs")]
                .map(|(name, resource)| selection.has(name, resource))
        };
        assert_eq!(chosen("*"), [true, true, true]);
        assert_eq!(chosen("*,-dummy"), [true, false, true]);
        assert_eq!(chosen("-dummies,*"), [true, false, true]);
        assert_eq!(chosen("at,jobs"), [true, false, true]);
        assert_eq!(chosen("-at"), [false, false, false]);
        assert!(ControllerSelection::parse(&words("a,-a")).is_err());
        assert!(ControllerSelection::parse(&words("-")).is_err());
    }

    #[test]
    fn an_empty_list_of_enabled_ones_is_all() {
        assert!(ControllerSelection::default().has("at", "ats"));
        assert!(ControllerSelection::only(Vec::new()).has("at", "ats"));
        let only = ControllerSelection::only(words("ats"));
        assert!(only.has("at", "ats") && !only.has("dummy", "dummies"));
        assert_eq!(
            ControllerSelection::only(words("ats,bats")).unknown(|name| name == "ats"),
            ["bats"]
        );
    }
}
