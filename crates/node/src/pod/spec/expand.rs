//! `$(NAME)` in commands.

/// The text with variables filled in. `$$` is a dollar, and what names no variable stays as it is.
pub fn expand(text: &str, environment: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            // The last of two with one name is the one a process sees.
            match environment.iter().rev().find(|(known, _)| known == name) {
                Some((_, value)) => out.push_str(value),
                None => out.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}
