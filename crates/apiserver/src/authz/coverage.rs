//! Computes which rules a set of rules does not cover, for escalation checks.
//!
//! Promise: the time it takes grows with the number of words in the rules and with a bounded number of their combinations, never with
//! the product of the rules of both sides.

use std::collections::{HashMap, HashSet};

use super::rbac::{PolicyRule, StringList, leads_to};

/// The maximum number of combinations of groups, resources, verbs and names that are compared. No role in practice is near it;
/// one that is made to keep the server busy is.
const MAX_COVERAGE_STEPS: usize = 100_000;
/// The most rules that are compared one by one.
const MAX_COMPARED: usize = 200_000;
/// How many combinations are listed that are not allowed.
pub(super) const MAX_MISSING: usize = 1_000;

const ALL: &str = "*";

/// The rules that a user has, indexed for lookup.
struct CoveredRules<'r> {
    /// Group, resource, verb, and the name if it is for one.
    resources: HashSet<(&'r str, &'r str, &'r str, Option<&'r str>)>,
    /// Paths by verb.
    paths: HashMap<&'r str, Vec<&'r str>>,
    /// Rules with too many combinations to be looked up.
    wide: Vec<&'r PolicyRule>,
    /// How many comparisons are left.
    left: usize,
    /// How many lookups and comparisons there were.
    compared: usize,
}

/// The rules of `rules` that `own` does not cover, split into single combinations of group, resource, verb and name; the list is
/// truncated. `None`: there are too many combinations to compare.
// upstream: staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go Covers
pub(super) fn uncovered(own: &[PolicyRule], rules: &[PolicyRule]) -> Option<Vec<PolicyRule>> {
    compare(own, rules).map(|(missing, _)| missing)
}

/// The same, and how many comparisons that took.
fn compare(own: &[PolicyRule], rules: &[PolicyRule]) -> Option<(Vec<PolicyRule>, usize)> {
    // Rules that are held as they are need no comparison, however many combinations they have.
    let held: HashSet<&PolicyRule> = own.iter().collect();
    let others: Vec<_> = rules.iter().filter(|rule| !held.contains(rule)).collect();
    let mut compared = rules.len();
    let mut missing = Vec::new();
    if others.is_empty() {
        return Some((missing, compared));
    }
    // Rules that allow everything of some sort allow most of what there is to ask about, and are few.
    let broad: HashSet<&PolicyRule> = own.iter().filter(|rule| rule.is_broad()).take(64).collect();
    let mut coverage = CoveredRules::new(held)?;
    let mut left = MAX_COVERAGE_STEPS;
    for rule in others {
        let is_plain = rule.paths.is_empty() || rule.names.is_empty();
        compared += broad.len();
        if is_plain && broad.iter().any(|own| own.covers(rule)) {
            continue;
        }
        left = left.checked_sub(rule.combinations()?)?;
        coverage.find_missing(rule, &mut missing)?;
        if missing.len() >= MAX_MISSING {
            missing.truncate(MAX_MISSING);
            break;
        }
    }
    Some((missing, compared + coverage.compared))
}

// --- CoveredRules ---

impl<'r> CoveredRules<'r> {
    fn new(own: HashSet<&'r PolicyRule>) -> Option<Self> {
        let mut coverage = CoveredRules {
            resources: HashSet::new(),
            paths: HashMap::new(),
            wide: Vec::new(),
            left: MAX_COMPARED,
            compared: 0,
        };
        let mut rules: Vec<_> = own.into_iter().collect();
        rules.sort_by_key(|rule| rule.combinations());
        let mut budget = 2 * MAX_COVERAGE_STEPS;
        for rule in rules {
            match rule.combinations().and_then(|needed| budget.checked_sub(needed)) {
                Some(rest) => {
                    budget = rest;
                    coverage.add(rule);
                }
                None => coverage.wide.push(rule),
            }
        }
        (coverage.wide.len() <= MAX_COMPARED).then_some(coverage)
    }

    fn add(&mut self, rule: &'r PolicyRule) {
        for verb in &rule.verbs {
            for group in &rule.groups {
                for resource in &rule.resources {
                    if rule.names.is_empty() {
                        self.resources.insert((group, resource, verb, None));
                    }
                    let named = rule
                        .names
                        .iter()
                        .map(|name| (&**group, &**resource, &**verb, Some(&**name)));
                    self.resources.extend(named);
                }
            }
            if !rule.paths.is_empty() {
                let paths = self.paths.entry(verb).or_default();
                paths.extend(rule.paths.iter().map(|path| &**path));
            }
        }
    }

    /// Appends the combinations of a rule that are not allowed. `None`: there is too much to compare.
    fn find_missing(&mut self, rule: &PolicyRule, missing: &mut Vec<PolicyRule>) -> Option<()> {
        let one = |word: &str| StringList::from([Box::from(word)]);
        let names: Vec<Option<&str>> = match &*rule.names {
            [] => vec![None],
            names => names.iter().map(|name| Some(&**name)).collect(),
        };
        for group in &rule.groups {
            for resource in &rule.resources {
                for verb in &rule.verbs {
                    for name in &names {
                        if self.has(group, resource, verb, *name) {
                            continue;
                        }
                        let single = PolicyRule {
                            verbs: one(verb),
                            groups: one(group),
                            resources: one(resource),
                            names: name.map(one).unwrap_or_default(),
                            paths: StringList::default(),
                        };
                        if !self.is_covered_by_wide(&single)? {
                            missing.push(single);
                        }
                    }
                    if missing.len() >= MAX_MISSING {
                        return Some(());
                    }
                }
            }
        }
        for path in &rule.paths {
            for verb in &rule.verbs {
                if self.has_path(path, verb)? {
                    continue;
                }
                let single = PolicyRule {
                    verbs: one(verb),
                    paths: one(path),
                    ..PolicyRule::default()
                };
                if !self.is_covered_by_wide(&single)? {
                    missing.push(single);
                }
                if missing.len() >= MAX_MISSING {
                    return Some(());
                }
            }
        }
        Some(())
    }

    fn has(&mut self, group: &str, resource: &str, verb: &str, name: Option<&str>) -> bool {
        self.compared += 1;
        let of_any = resource.split_once('/').map(|(_, part)| format!("*/{part}"));
        let resources = [Some(resource), Some(ALL), of_any.as_deref()];
        let names = [None, name];
        let names = if name.is_some() { &names[..] } else { &names[..1] };
        [group, ALL].into_iter().any(|group| {
            resources.into_iter().flatten().any(|resource| {
                [verb, ALL].into_iter().any(|verb| {
                    names
                        .iter()
                        .any(|name| self.resources.contains(&(group, resource, verb, *name)))
                })
            })
        })
    }

    fn has_path(&mut self, path: &str, verb: &str) -> Option<bool> {
        for verb in [verb, ALL] {
            for own in self.paths.get(verb).into_iter().flatten() {
                self.left = self.left.checked_sub(1)?;
                self.compared += 1;
                if leads_to(own, path) {
                    return Some(true);
                }
            }
        }
        Some(false)
    }

    fn is_covered_by_wide(&mut self, single: &PolicyRule) -> Option<bool> {
        for own in &self.wide {
            self.left = self.left.checked_sub(own.value_count())?;
            self.compared += 1;
            if own.covers(single) {
                return Some(true);
            }
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str, paths: &str) -> PolicyRule {
        let word_count = |text: &str| text.split_whitespace().map(Box::from).collect();
        PolicyRule {
            verbs: word_count(verbs),
            groups: if groups == "core" {
                StringList::from([Box::from("")])
            } else {
                word_count(groups)
            },
            resources: word_count(resources),
            names: word_count(names),
            paths: word_count(paths),
        }
    }

    #[test]
    fn coverage_equals_pairwise_comparison() {
        let verbs = ["get", "list", "*", "get list"];
        let groups = ["core", "apps", "*", "apps batch"];
        let resources = ["pods", "pods/log", "*/log", "*", "pods pods/log"];
        let names = ["", "a", "a b"];
        let mut all = Vec::new();
        for verb in verbs {
            for group in groups {
                for resource in resources {
                    for name in names {
                        all.push(rule(verb, group, resource, name, ""));
                    }
                }
            }
            for path in ["/healthz", "/healthz/*", "*", "/metrics /healthz/x"] {
                all.push(rule(verb, "", "", "", path));
            }
        }
        for (at, wanted) in all.iter().enumerate() {
            for own in [
                &all[at / 2],
                &all[(at * 7 + 3) % all.len()],
                &all[(at * 31 + 11) % all.len()],
            ] {
                let missing = uncovered(std::slice::from_ref(own), std::slice::from_ref(wanted)).unwrap();
                assert_eq!(missing.is_empty(), own.covers(wanted), "{own:?} {wanted:?}");
            }
        }
    }

    #[test]
    fn comparison_cost_is_not_quadratic() {
        const RULES: usize = 20_000;
        let rules = |verbs: &str, prefix: &str| -> Vec<_> {
            (0..RULES)
                .map(|number| rule(verbs, "core", "configmaps", &format!("{prefix}{number}"), ""))
                .collect()
        };
        let own = rules("get list", "a");
        for (wanted, missing) in [
            (rules("get list", "a"), 0),
            (rules("list", "a"), 0),
            (rules("list", "b"), MAX_MISSING),
        ] {
            let (found, compared) = compare(&own, &wanted).unwrap();
            assert_eq!(found.len(), missing);
            // Each with each takes 400 million.
            assert!(compared <= 4 * RULES, "{compared}");
        }
    }

    fn huge() -> PolicyRule {
        let word_count = |prefix: &str| {
            let word_count: Vec<_> = (0..400).map(|number| format!("{prefix}{number}")).collect();
            word_count.join(" ")
        };
        rule(&word_count("v"), &word_count("g"), &word_count("r"), "", "")
    }

    #[test]
    fn identical_rules_are_covered_regardless_of_size() {
        let pods = rule("get", "core", "pods", "", "");
        let own = [huge(), rule("get list", "core", "pods", "", "")];
        assert!(uncovered(&own, &own).unwrap().is_empty());
        assert!(uncovered(&own, &[huge(), pods.clone()]).unwrap().is_empty());
        let secrets = rule("get", "core", "secrets", "", "");
        let missing = uncovered(&own, &[huge(), pods, secrets.clone()]).unwrap();
        assert_eq!(missing, [secrets]);
    }

    #[test]
    fn rejects_too_many_combinations() {
        let huge = huge();
        assert!(uncovered(&[], std::slice::from_ref(&huge)).is_none());
        let everything = PolicyRule::everything();
        assert!(uncovered(&everything, &[huge]).unwrap().is_empty());
    }
}
