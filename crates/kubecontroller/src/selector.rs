//! Which labels are meant.
//!
//! The grammar is that of `kubectl -l`: `app=web,tier!=db,stage in (a, b),stage notin (c),owner,!owner,size>3,size<9`.

use std::{fmt, str::FromStr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Requirements that must all hold. The empty selector selects everything.
///
/// ```
/// use kubecontroller::selector::Selector;
///
/// let selector: Selector = "app=web,tier in (front, back)".parse().unwrap();
/// let label = |name: &str| match name { "app" => Some("web"), "tier" => Some("back"), _ => None };
/// assert!(selector.matches(label));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    label: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    /// Also holds where the label is not there.
    NotIn(Vec<String>),
    Exists,
    Missing,
    Above(i64),
    Below(i64),
}

/// Why a text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{requirement:?} is not a requirement on labels: {problem}")]
pub struct ParseSelectorError {
    requirement: String,
    problem: &'static str,
}

// --- Selector ---

impl Selector {
    /// Whether all requirements hold for an object whose labels can be asked for by name.
    pub fn matches<'l>(&self, mut label: impl FnMut(&str) -> Option<&'l str>) -> bool {
        let mut requirements = self.requirements.iter();
        requirements.all(|requirement| requirement.test.holds(label(&requirement.label)))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl FromStr for Selector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, ParseSelectorError> {
        let requirements = split(text).filter(|part| !part.trim().is_empty());
        let requirements = requirements
            .map(|part| parse(part.trim()))
            .collect::<Result<_, _>>()?;
        Ok(Selector { requirements })
    }
}

/// The selector of an object such as a `ReplicaSet`.
impl TryFrom<&LabelSelector> for Selector {
    type Error = ParseSelectorError;

    fn try_from(selector: &LabelSelector) -> Result<Self, ParseSelectorError> {
        let equal = selector.match_labels.iter().flatten();
        let equal = equal.map(|(label, value)| {
            Ok(Requirement {
                label: label.clone(),
                test: Test::In(vec![value.clone()]),
            })
        });
        let others = selector.match_expressions.iter().flatten().map(|expression| {
            let values = expression.values.clone().unwrap_or_default();
            let test = match expression.operator.as_str() {
                "In" if !values.is_empty() => Test::In(values),
                "NotIn" if !values.is_empty() => Test::NotIn(values),
                "Exists" if values.is_empty() => Test::Exists,
                "DoesNotExist" if values.is_empty() => Test::Missing,
                "In" | "NotIn" => return Err(bad(&expression.key, "In and NotIn need values")),
                "Exists" | "DoesNotExist" => {
                    return Err(bad(&expression.key, "Exists and DoesNotExist take no values"));
                }
                _ => {
                    return Err(bad(
                        &expression.key,
                        "the operator is not In, NotIn, Exists or DoesNotExist",
                    ));
                }
            };
            Ok(Requirement {
                label: expression.key.clone(),
                test,
            })
        });
        Ok(Selector {
            requirements: equal.chain(others).collect::<Result<_, _>>()?,
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, Requirement { label, test }) in self.requirements.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::In(values) if values.len() == 1 => write!(f, "{label}={}", values[0]),
                Test::NotIn(values) if values.len() == 1 => write!(f, "{label}!={}", values[0]),
                Test::In(values) => write!(f, "{label} in ({})", values.join(",")),
                Test::NotIn(values) => write!(f, "{label} notin ({})", values.join(",")),
                Test::Exists => f.write_str(label),
                Test::Missing => write!(f, "!{label}"),
                Test::Above(bound) => write!(f, "{label}>{bound}"),
                Test::Below(bound) => write!(f, "{label}<{bound}"),
            }?;
        }
        Ok(())
    }
}

// --- Test ---

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let is_one_of = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Test::In(values) => is_one_of(values),
            Test::NotIn(values) => !is_one_of(values),
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

// --- reading ---

/// The parts between commas that are not in brackets.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

fn parse(text: &str) -> Result<Requirement, ParseSelectorError> {
    let (label, test) = parse_parts(text).map_err(|problem| bad(text, problem))?;
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    if label.is_empty() || !label.chars().all(is_letter) {
        return Err(bad(text, "it needs the name of a label"));
    }
    Ok(Requirement {
        label: label.to_owned(),
        test,
    })
}

fn parse_parts(text: &str) -> Result<(&str, Test), &'static str> {
    if let Some(label) = text.strip_prefix('!') {
        return Ok((label.trim(), Test::Missing));
    }
    if let Some((label, values)) = text.split_once('(') {
        let values = values
            .trim_end()
            .strip_suffix(')')
            .ok_or("a bracket is not closed")?;
        let values: Vec<_> = values.split(',').map(|value| value.trim().to_owned()).collect();
        let (label, word) = label
            .trim_end()
            .rsplit_once(char::is_whitespace)
            .unwrap_or((label, ""));
        return match word {
            "in" => Ok((label.trim(), Test::In(values))),
            "notin" => Ok((label.trim(), Test::NotIn(values))),
            _ => Err("values in brackets come after `in` or `notin`"),
        };
    }
    let number = |text: &str| {
        text.trim()
            .parse()
            .map_err(|_| "it compares with something that is not a number")
    };
    for (sign, test) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((label, value)) = text.split_once(sign) {
            let value = value.trim();
            if value.contains(['=', '!', '<', '>', '(', ')']) || value.contains(char::is_whitespace) {
                return Err("its value is not that of a label");
            }
            let values = vec![value.to_owned()];
            return Ok((
                label.trim(),
                if test {
                    Test::In(values)
                } else {
                    Test::NotIn(values)
                },
            ));
        }
    }
    if let Some((label, bound)) = text.split_once('>') {
        return Ok((label.trim(), Test::Above(number(bound)?)));
    }
    if let Some((label, bound)) = text.split_once('<') {
        return Ok((label.trim(), Test::Below(number(bound)?)));
    }
    Ok((text, Test::Exists))
}

fn bad(requirement: &str, problem: &'static str) -> ParseSelectorError {
    ParseSelectorError {
        requirement: requirement.to_owned(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

    use super::Selector;

    const WEB: &[(&str, &str)] = &[("app", "web"), ("tier", "front"), ("size", "5")];

    fn label(name: &str) -> Option<&'static str> {
        WEB.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| *value)
    }

    #[test]
    fn all_requirements_must_hold() {
        for (text, is_match) in [
            ("", true),
            ("app=web", true),
            ("app==web, tier = front", true),
            ("app=web,tier=back", false),
            ("app!=db", true),
            ("stage!=test", true),
            ("tier in (front, back)", true),
            ("tier notin (front,back)", false),
            ("stage notin (test)", true),
            ("stage in (test)", false),
            ("app", true),
            ("!app", false),
            ("!stage,app", true),
            ("size>4,size<6", true),
            ("size>5", false),
            ("app<6", false),
            ("stage=", false),
        ] {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.matches(label), is_match, "{text}");
            let again: Selector = selector.to_string().parse().unwrap();
            assert_eq!(again, selector, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, problem) in [
            ("=web", "name of a label"),
            ("app=web tier=db", "value"),
            ("app in web", "name of a label"),
            ("app is (web)", "`in` or `notin`"),
            ("app in (web", "not closed"),
            ("size>many", "not a number"),
        ] {
            let mistake = text.parse::<Selector>().unwrap_err().to_string();
            assert!(mistake.contains(problem) && mistake.contains(text), "{mistake}");
        }
    }

    #[test]
    fn selectors_of_objects_are_the_same() {
        let expression = |key: &str, operator: &str, values: &[&str]| LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|&value| value.to_owned()).collect()),
        };
        let selector = LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            match_expressions: Some(vec![
                expression("tier", "NotIn", &["db"]),
                expression("stage", "DoesNotExist", &[]),
            ]),
        };
        let selector = Selector::try_from(&selector).unwrap();
        assert_eq!(selector.to_string(), "app=web,tier!=db,!stage");
        assert!(selector.matches(label));
        for broken in [
            expression("a", "In", &[]),
            expression("a", "Exists", &["b"]),
            expression("a", "Is", &[]),
        ] {
            let selector = LabelSelector {
                match_expressions: Some(vec![broken]),
                ..LabelSelector::default()
            };
            assert!(Selector::try_from(&selector).is_err());
        }
    }
}
