//! URL query strings.

use std::fmt::Write;

/// Returns `?name=value&...`, percent-encoded.
pub(in crate::runtime::docker) fn query_string<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        text.push(if text.is_empty() { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                text.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::query_string;

    #[test]
    fn escapes_special_characters() {
        assert_eq!(query_string([]), "");
        assert_eq!(
            query_string([("name", "k8s_a_b.c-d"), ("t", "1")]),
            "?name=k8s_a_b.c-d&t=1"
        );
        assert_eq!(
            query_string([("f", r#"{"a":["b=c"]}"#)]),
            "?f=%7B%22a%22%3A%5B%22b%3Dc%22%5D%7D"
        );
    }
}
