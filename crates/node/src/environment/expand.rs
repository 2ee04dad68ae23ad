//! Expands `$(NAME)` references.
//!
//! `$$` is an escaped dollar sign: `$$(NAME)` expands to the literal `$(NAME)`. A reference without `)` and a single dollar sign
//! are literals too.
// The counterpart is `Expand` in `third_party/forked/golang/expansion/expand.go`.

/// Expands references with the values that `value` returns. A reference without a value stays as it is.
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

/// Expands references to environment variables in a command or an argument.
// upstream: pkg/kubelet/container/helpers.go ExpandContainerCommandAndArgs
pub fn expand(text: &str, environment: &[(String, String)]) -> String {
    expand_with(text, |name| {
        let mut variables = environment.iter().rev();
        variables
            .find(|(variable, _)| variable == name)
            .map(|(_, value)| value.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_references_and_escapes() {
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
