//! What stands behind the question mark of a path.

use std::fmt::Write;

/// `?name=value&...`, with everything escaped that needs it.
pub(in crate::runtime::engine) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        text.push(if text.is_empty() { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                text.push(char::from(byte));
            } else {
                // Writing to a string does not fail.
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::query;

    #[test]
    fn what_is_special_is_escaped() {
        assert_eq!(query([]), "");
        assert_eq!(
            query([("name", "k8s_a_b.c-d"), ("t", "1")]),
            "?name=k8s_a_b.c-d&t=1"
        );
        assert_eq!(
            query([("f", r#"{"a":["b=c"]}"#)]),
            "?f=%7B%22a%22%3A%5B%22b%3Dc%22%5D%7D"
        );
    }
}
