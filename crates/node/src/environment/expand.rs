//! `$(NAME)` in texts.
//!
//! `$$` is a dollar sign, so that `$$(NAME)` is the text `$(NAME)`. A reference that has no end, and a dollar sign before
//! anything else, stay as they are.

/// Replaces references by what `value` says of their names. What it knows nothing of stays a reference.
pub(crate) fn expand_with(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        rest = if let Some(name) = after.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            match value(name.0) {
                Some(value) => out.push_str(&value),
                None => out.extend(["$(", name.0, ")"]),
            }
            name.1
        } else if let Some(rest) = after.strip_prefix('$') {
            out.push('$');
            rest
        } else {
            out.push('$');
            after
        };
    }
    out.push_str(rest);
    out
}

/// Replaces references to variables of an environment, for commands and arguments.
pub fn expand(text: &str, environment: &[(String, String)]) -> String {
    expand_with(text, |name| {
        let mut variables = environment.iter().rev();
        variables
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_and_dollar_signs_escaped() {
        let environment = [("A", "1"), ("B", "$(A)"), ("EMPTY", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "1"),
            ("x$(A)y$(A)z", "x1y1z"),
            ("$(B)", "$(A)"),
            ("$(EMPTY)!", "!"),
            ("$(MISSING)", "$(MISSING)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$(A)", "$$(A)"),
            ("$(A", "$(A"),
            ("$(A$(A)", "$(A$(A)"),
            ("$A $", "$A $"),
            ("$()", "$()"),
            ("$\u{e9}$(A)", "$\u{e9}1"),
            ("$$", "$"),
            ("a$", "a$"),
            ("$($(A))", "$($(A))"),
        ] {
            assert_eq!(expand(text, &environment), expected, "{text}");
        }
    }
}
