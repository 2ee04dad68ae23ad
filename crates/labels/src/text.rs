//! Messages and checks that the rules of names share.

/// A name that is too long, counted in characters.
pub fn at_most_characters(length: usize) -> String {
    format!("must be no more than {length} characters")
}

/// A name that is too long, counted in bytes. Rules for keys say it this way.
pub fn at_most_bytes(length: usize) -> String {
    format!("must be no more than {length} bytes")
}

/// A name of the wrong form.
pub fn form(rule: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{rule} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!(
        "{rule} (e.g. {}regex used for validation is '{pattern}')",
        examples.join(" or ")
    )
}

/// A number out of its range.
pub fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// A name that a file system would take for a way upwards.
pub fn climbs(value: &str) -> Option<String> {
    match value {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// Whether all bytes pass, and there is at least one.
pub fn all(value: &[u8], pass: impl Fn(u8) -> bool) -> bool {
    !value.is_empty() && value.iter().all(|b| pass(*b))
}

/// Whether the first, the last and the bytes between them pass.
pub fn framed(
    value: &[u8],
    first: impl Fn(u8) -> bool,
    middle: impl Fn(u8) -> bool,
    last: impl Fn(u8) -> bool,
) -> bool {
    match value {
        [] => false,
        [only] => first(*only),
        [head, body @ .., tail] => first(*head) && last(*tail) && body.iter().all(|b| middle(*b)),
    }
}

/// `[a-z0-9]`
pub fn lower_or_digit(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}
