//! Restricts a controller to a part of its objects.
//!
//! In the configuration a filter is a list of clauses separated by `;`. All of them must hold:
//!
//! | clause | holds for |
//! | --- | --- |
//! | `shop/*`, `shop/web-?`, `team-*/*` | objects whose `namespace/name` matches the glob |
//! | `web-*` | objects with a matching name, in any namespace |
//! | `shop/*, blog/*` | objects that match one of several globs |
//! | `~^team-[0-9]+/` | objects whose `namespace/name` contains a match of the regular expression |
//! | `!kube-system/*`, `!~test` | objects that do not match |
//! | `labels: app=web, tier in (a, b)` | objects whose labels match the selector |
//!
//! In globs `*` matches any characters except `/`, `**` any characters, `?` one character except `/`, `[a-z]` one character of a
//! set and `[!a-z]` one character outside a set. The key of a cluster-scoped object is its name, without `/`.

use std::{fmt, str::FromStr};

use regex::Regex;

use crate::{
    Key,
    selector::{ParseError, Selector},
};

/// Selects objects by name and labels. The empty filter admits every object.
///
/// ```
/// use kubecontroller::{Key, controller::KeyFilter};
///
/// let filter: KeyFilter = "team-*/*; !team-b/*; labels: app=web".parse().unwrap();
/// assert!(filter.admits(&Key::new("team-a", "web"), |_| Some("web")));
/// assert!(!filter.admits(&Key::new("team-b", "web"), |_| Some("web")));
/// ```
#[derive(Clone, Debug, Default)]
pub struct KeyFilter {
    text: String,
    names: Vec<NamePatterns>,
    labels: Vec<Selector>,
}

/// A clause of name patterns.
#[derive(Clone, Debug)]
struct NamePatterns {
    any_of: Vec<Regex>,
    is_negated: bool,
}

/// Why a text is not a filter.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseFilterError {
    /// A glob is empty or has an unbalanced bracket.
    #[error("invalid glob {glob:?}: {problem}")]
    Glob {
        /// The glob.
        glob: String,
        /// Why it is invalid.
        problem: &'static str,
    },
    /// A regular expression does not compile.
    #[error("invalid regular expression {expression:?}: {source}")]
    Expression {
        /// The expression.
        expression: String,
        /// Why it does not compile.
        source: Box<regex::Error>,
    },
    /// The selector after `labels:` is invalid.
    #[error("invalid label selector: {0}")]
    Labels(#[from] ParseError),
}

// --- KeyFilter ---

impl KeyFilter {
    /// Whether the filter admits an object. `label` returns the value of a label of the object.
    pub fn admits<'l>(&self, key: &Key, mut label: impl FnMut(&str) -> Option<&'l str>) -> bool {
        self.admits_name(key)
            && self
                .labels
                .iter()
                .all(|selector| selector.matches_with(&mut label))
    }

    /// Whether the filter admits an object with this key, labels aside.
    pub fn admits_name(&self, key: &Key) -> bool {
        self.names.iter().all(|names| {
            let is_match = names.any_of.iter().any(|name| name.is_match(key.as_str()));
            is_match != names.is_negated
        })
    }

    /// Whether the filter has a label selector.
    pub fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }
}

impl FromStr for KeyFilter {
    type Err = ParseFilterError;

    fn from_str(text: &str) -> Result<Self, ParseFilterError> {
        let mut filter = KeyFilter {
            text: text.to_owned(),
            ..KeyFilter::default()
        };
        for clause in text.split(';').map(str::trim).filter(|clause| !clause.is_empty()) {
            if let Some(selector) = clause.strip_prefix("labels:") {
                filter.labels.push(selector.parse()?);
                continue;
            }
            let (is_negated, names) = match clause.strip_prefix('!') {
                Some(names) => (true, names.trim_start()),
                None => (false, clause),
            };
            let any_of = match names.strip_prefix('~') {
                Some(expression) => vec![regex(expression.trim())?],
                None => names
                    .split(',')
                    .map(|name| glob(name.trim()))
                    .collect::<Result<_, _>>()?,
            };
            filter.names.push(NamePatterns { any_of, is_negated });
        }
        Ok(filter)
    }
}

impl fmt::Display for KeyFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for KeyFilter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for KeyFilter {}

// --- parsing ---

fn regex(expression: &str) -> Result<Regex, ParseFilterError> {
    Regex::new(expression).map_err(|source| ParseFilterError::Expression {
        expression: expression.to_owned(),
        source: Box::new(source),
    })
}

fn glob(glob: &str) -> Result<Regex, ParseFilterError> {
    let error = |problem| ParseFilterError::Glob {
        glob: glob.to_owned(),
        problem,
    };
    if glob.is_empty() {
        return Err(error("it is empty"));
    }
    let mut expression = String::from("^");
    if !glob.contains('/') && !glob.contains("**") {
        // A glob without a namespace matches the name in any namespace.
        expression.push_str("(?:[^/]*/)?");
    }
    let mut letters = glob.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '*' if letters.next_if_eq(&'*').is_some() => expression.push_str(".*"),
            '*' => expression.push_str("[^/]*"),
            '?' => expression.push_str("[^/]"),
            ']' => return Err(error("a ] has no [")),
            '[' => {
                let is_negated = letters.next_if(|next| "!^".contains(*next)).is_some();
                let mut any_of = String::new();
                loop {
                    match letters.next() {
                        Some(']') if !any_of.is_empty() => break,
                        Some('-') => any_of.push('-'),
                        Some(letter) => any_of.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4]))),
                        None => return Err(error("a [ has no ]")),
                    }
                }
                let not = if is_negated { "^/" } else { "" };
                expression.extend(["[", not, &any_of, "]"]);
            }
            letter => expression.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4]))),
        }
    }
    expression.push('$');
    regex(&expression).map_err(|_| error("the characters in [] are not in order"))
}

#[cfg(test)]
mod tests {
    use super::KeyFilter;
    use crate::Key;

    #[test]
    fn matches_names_by_glob_or_regular_expression() {
        for (filter, admitted, rejected) in [
            (
                "shop/*",
                &["shop/web", "shop/db"] as &[_],
                &["blog/web", "web", "shopping/web"] as &[_],
            ),
            ("web-*", &["shop/web-1", "web-2"], &["shop/web", "web-1/db"]),
            ("web-?", &["shop/web-1"], &["shop/web-12", "shop/web-"]),
            ("*/web-[0-3]", &["shop/web-2"], &["shop/web-4", "web-2"]),
            ("*/web-[!0-3]", &["shop/web-4"], &["shop/web-2"]),
            ("**web", &["a-web/web", "b/a-web"], &["web/a"]),
            ("shop/*, blog/*", &["shop/web", "blog/web"], &["mail/web"]),
            (
                "~^team-[0-9]+/",
                &["team-1/web", "team-22/db"],
                &["team-a/web", "x/team-1"],
            ),
            ("!kube-*/*", &["shop/web", "node"], &["kube-system/dns"]),
            ("!~test", &["shop/web"], &["test/web", "shop/latest"]),
            ("team-*/*; !team-b/*", &["team-a/x"], &["team-b/x", "shop/x"]),
            ("a.b/c", &["a.b/c"], &["a-b/c"]),
            ("", &["shop/web", "node"], &[]),
        ] {
            let filter: KeyFilter = filter.parse().unwrap();
            let admits = |key: &&str| filter.admits(&key.parse::<Key>().unwrap(), |_| None);
            assert!(admitted.iter().all(admits), "{filter}");
            assert!(!rejected.iter().any(admits), "{filter}");
        }
    }

    #[test]
    fn label_selectors_must_match_too() {
        let filter: KeyFilter = "shop/*; labels: app=web, tier in (a, b)".parse().unwrap();
        let label = |tier| {
            move |name: &str| match name {
                "app" => Some("web"),
                "tier" => Some(tier),
                _ => None,
            }
        };
        let key = Key::new("shop", "web");
        assert!(filter.has_labels() && filter.admits(&key, label("b")));
        assert!(!filter.admits(&key, label("c")));
        assert!(!filter.admits(&Key::new("blog", "web"), label("b")));
    }

    #[test]
    fn rejects_invalid_filters() {
        for (filter, problem) in [
            ("shop/[a", "a [ has no ]"),
            ("shop/a]", "a ] has no ["),
            ("shop/*,", "it is empty"),
            ("shop/[z-a]", "not in order"),
            ("~(", "invalid regular expression \"(\""),
            ("labels: app=a=b", "invalid label selector"),
        ] {
            let error = filter.parse::<KeyFilter>().unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
