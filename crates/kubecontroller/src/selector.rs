//! Label selectors.
//!
//! The syntax is that of `kubectl -l`: `app=web,tier!=db,stage in (a, b),stage notin (c),owner,!owner,size>3,size<9`.

use std::{fmt, str::FromStr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// A label selector. All requirements must hold; the empty selector matches everything.
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
    requirements: Vec<LabelRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    label: String,
    condition: LabelCondition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelCondition {
    In(Vec<String>),
    /// Also holds if the label does not exist.
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

/// A text is not a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid label requirement {requirement:?}: {problem}")]
pub struct ParseSelectorError {
    requirement: String,
    problem: &'static str,
}

// --- Selector ---

impl Selector {
    /// Whether the selector matches an object. `label` returns the value of a label of the object.
    pub fn matches<'l>(&self, mut label: impl FnMut(&str) -> Option<&'l str>) -> bool {
        let mut requirements = self.requirements.iter();
        requirements.all(|requirement| requirement.condition.holds(label(&requirement.label)))
    }

    /// Whether the selector matches everything.
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

/// The selector of an object such as a `ReplicaSet` (`metav1.LabelSelectorAsSelector`).
impl TryFrom<&LabelSelector> for Selector {
    type Error = ParseSelectorError;

    fn try_from(selector: &LabelSelector) -> Result<Self, ParseSelectorError> {
        let equal = selector.match_labels.iter().flatten();
        let equal = equal.map(|(label, value)| {
            Ok(LabelRequirement {
                label: label.clone(),
                condition: LabelCondition::In(vec![value.clone()]),
            })
        });
        let others = selector.match_expressions.iter().flatten().map(|expression| {
            let values = expression.values.clone().unwrap_or_default();
            let condition = match expression.operator.as_str() {
                "In" if !values.is_empty() => LabelCondition::In(values),
                "NotIn" if !values.is_empty() => LabelCondition::NotIn(values),
                "Exists" if values.is_empty() => LabelCondition::Exists,
                "DoesNotExist" if values.is_empty() => LabelCondition::DoesNotExist,
                "In" | "NotIn" => return Err(parse_error(&expression.key, "In and NotIn require values")),
                "Exists" | "DoesNotExist" => {
                    return Err(parse_error(
                        &expression.key,
                        "Exists and DoesNotExist take no values",
                    ));
                }
                _ => {
                    return Err(parse_error(
                        &expression.key,
                        "the operator is not In, NotIn, Exists or DoesNotExist",
                    ));
                }
            };
            Ok(LabelRequirement {
                label: expression.key.clone(),
                condition,
            })
        });
        Ok(Selector {
            requirements: equal.chain(others).collect::<Result<_, _>>()?,
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, LabelRequirement { label, condition }) in self.requirements.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            match condition {
                LabelCondition::In(values) if values.len() == 1 => write!(f, "{label}={}", values[0]),
                LabelCondition::NotIn(values) if values.len() == 1 => write!(f, "{label}!={}", values[0]),
                LabelCondition::In(values) => write!(f, "{label} in ({})", values.join(",")),
                LabelCondition::NotIn(values) => write!(f, "{label} notin ({})", values.join(",")),
                LabelCondition::Exists => f.write_str(label),
                LabelCondition::DoesNotExist => write!(f, "!{label}"),
                LabelCondition::GreaterThan(bound) => write!(f, "{label}>{bound}"),
                LabelCondition::LessThan(bound) => write!(f, "{label}<{bound}"),
            }?;
        }
        Ok(())
    }
}

// --- LabelCondition ---

impl LabelCondition {
    fn holds(&self, value: Option<&str>) -> bool {
        let is_one_of = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            LabelCondition::In(values) => is_one_of(values),
            LabelCondition::NotIn(values) => !is_one_of(values),
            LabelCondition::Exists => value.is_some(),
            LabelCondition::DoesNotExist => value.is_none(),
            LabelCondition::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            LabelCondition::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

// --- parsing ---

/// Splits at commas outside parentheses.
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

fn parse(text: &str) -> Result<LabelRequirement, ParseSelectorError> {
    let (label, condition) = parse_requirement(text).map_err(|problem| parse_error(text, problem))?;
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    if label.is_empty() || !label.chars().all(is_allowed) {
        return Err(parse_error(text, "the label name is missing or invalid"));
    }
    Ok(LabelRequirement {
        label: label.to_owned(),
        condition,
    })
}

fn parse_requirement(text: &str) -> Result<(&str, LabelCondition), &'static str> {
    if let Some(label) = text.strip_prefix('!') {
        return Ok((label.trim(), LabelCondition::DoesNotExist));
    }
    if let Some((label, values)) = text.split_once('(') {
        let values = values
            .trim_end()
            .strip_suffix(')')
            .ok_or("a parenthesis is not closed")?;
        let values: Vec<_> = values.split(',').map(|value| value.trim().to_owned()).collect();
        let (label, operator) = label
            .trim_end()
            .rsplit_once(char::is_whitespace)
            .unwrap_or((label, ""));
        return match operator {
            "in" => Ok((label.trim(), LabelCondition::In(values))),
            "notin" => Ok((label.trim(), LabelCondition::NotIn(values))),
            _ => Err("expected `in` or `notin` before the values in parentheses"),
        };
    }
    let number = |text: &str| text.trim().parse().map_err(|_| "the bound is not a number");
    for (sign, is_equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((label, value)) = text.split_once(sign) {
            let value = value.trim();
            if value.contains(['=', '!', '<', '>', '(', ')']) || value.contains(char::is_whitespace) {
                return Err("the label value is invalid");
            }
            let values = vec![value.to_owned()];
            return Ok((
                label.trim(),
                if is_equal {
                    LabelCondition::In(values)
                } else {
                    LabelCondition::NotIn(values)
                },
            ));
        }
    }
    if let Some((label, bound)) = text.split_once('>') {
        return Ok((label.trim(), LabelCondition::GreaterThan(number(bound)?)));
    }
    if let Some((label, bound)) = text.split_once('<') {
        return Ok((label.trim(), LabelCondition::LessThan(number(bound)?)));
    }
    Ok((text, LabelCondition::Exists))
}

fn parse_error(requirement: &str, problem: &'static str) -> ParseSelectorError {
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
    fn rejects_invalid_selectors() {
        for (text, problem) in [
            ("=web", "label name"),
            ("app=web tier=db", "label value"),
            ("app in web", "label name"),
            ("app is (web)", "`in` or `notin`"),
            ("app in (web", "not closed"),
            ("size>many", "not a number"),
        ] {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn converts_label_selectors_of_objects() {
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
