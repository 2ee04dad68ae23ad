//! Label, annotation and data keys, and names used as path segments.

use k3_labels::{
    key::{is_name_byte, validate_dns1123_subdomain, validate_label_key},
    text::{all, at_most_characters, climbs, form},
};

use super::ErrorMessages;
use crate::field::{Error, Path};

const CONFIG_KEY_LENGTH: usize = 253;

// upstream: staging/src/k8s.io/apimachinery/pkg/api/validate/content/kube.go IsPrefixedLabelKey
/// A key of a label that must have a domain before it.
pub fn validate_prefixed_label_key(value: &str) -> ErrorMessages {
    let messages = validate_label_key(value);
    if messages.is_empty() && !value.contains('/') {
        return vec!["must include a prefix (e.g. 'example.com/key')".to_owned()];
    }
    messages
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsConfigMapKey
/// A key of the data of a config map or secret.
pub fn validate_config_key(value: &str) -> ErrorMessages {
    let mut messages = Vec::new();
    if value.len() > CONFIG_KEY_LENGTH {
        messages.push(at_most_characters(CONFIG_KEY_LENGTH));
    }
    if !all(value.as_bytes(), is_name_byte) {
        messages.push(form(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    messages.extend(climbs(value));
    messages
}

/// A name that can stand in a path.
pub fn validate_path_segment_name(name: &str) -> ErrorMessages {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    validate_path_segment_prefix(name)
}

/// The beginning of a name that can stand in a path.
pub fn validate_path_segment_prefix(name: &str) -> ErrorMessages {
    ["/", "%"]
        .iter()
        .filter(|bad| name.contains(**bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsDomainPrefixedPath
/// A domain, a slash and a path: `acme.io/foo`.
pub fn validate_domain_prefixed_path(at: &Path<'_>, value: &str) -> Vec<Error> {
    if value.is_empty() {
        return vec![Error::required(at, "")];
    }
    let Some((host, path)) = value
        .split_once('/')
        .filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        return vec![Error::invalid(
            at,
            value,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        )];
    };
    let mut errors: Vec<_> = validate_dns1123_subdomain(host)
        .into_iter()
        .map(|message| Error::invalid(at, host, message))
        .collect();
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !all(path.as_bytes(), fits) {
        let message = form("Invalid path", "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+", &[]);
        errors.push(Error::invalid(at, path, message));
    }
    errors
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsDomainPrefixedKey
/// A qualified name with a domain before it: `acme.io/foo`.
pub fn validate_domain_prefixed_key(at: &Path<'_>, value: &str) -> Vec<Error> {
    if value.is_empty() {
        return vec![Error::required(at, "")];
    }
    let errors: Vec<_> = validate_label_key(value)
        .into_iter()
        .map(|message| Error::invalid(at, value, message))
        .collect();
    if errors.is_empty() && !value.contains('/') {
        return vec![Error::invalid(
            at,
            value,
            "must be a domain-prefixed key (such as \"acme.io/foo\")",
        )];
    }
    errors
}

#[cfg(test)]
mod tests {
    use k3_labels::key::validate_label_value;
    use proptest::prelude::*;

    use super::*;

    const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

    #[test]
    fn keys_of_labels_have_a_name_and_maybe_a_domain() {
        for good in [
            "a",
            "A-b_c.9",
            "e.com/x",
            &format!("{}/{}", "d".repeat(253), "n".repeat(63)),
        ] {
            assert_eq!(validate_label_key(good), [""; 0], "{good}");
        }
        assert_eq!(validate_label_key("a b"), [format!("name part {NAME}")]);
        assert_eq!(
            validate_label_key(""),
            [
                "name part must be non-empty".to_owned(),
                format!("name part {NAME}")
            ]
        );
        assert_eq!(validate_label_key("/a"), ["prefix part must be non-empty"]);
        assert_eq!(
            validate_label_key(&"n".repeat(64)),
            ["name part must be no more than 63 bytes"]
        );
        assert_eq!(
            validate_label_key("a/b/c"),
            [format!(
                "a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )]
        );
        assert!(validate_label_key("A_/b")[0].starts_with("prefix part a lowercase RFC 1123 subdomain must"));
        assert_eq!(
            validate_label_key(&format!("{}/a", "d".repeat(254))),
            ["prefix part must be no more than 253 bytes"]
        );
        assert_eq!(
            validate_prefixed_label_key("a"),
            ["must include a prefix (e.g. 'example.com/key')"]
        );
    }

    #[test]
    fn values_of_labels_may_be_empty() {
        for good in ["", "a", "A.b_c-9", &"v".repeat(63)] {
            assert_eq!(validate_label_value(good), [""; 0], "{good}");
        }
        assert_eq!(
            validate_label_value(&"v".repeat(64)),
            ["must be no more than 63 bytes"]
        );
        assert_eq!(
            validate_label_value("-a"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
              must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
              regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
    }

    #[test]
    fn config_keys_do_not_climb() {
        assert_eq!(validate_config_key("a-B_c.d"), [""; 0]);
        assert_eq!(validate_config_key("."), ["must not be '.'"]);
        assert_eq!(validate_config_key(".."), ["must not be '..'"]);
        assert_eq!(validate_config_key("..a"), ["must not start with '..'"]);
        assert_eq!(
            validate_config_key("a/b"),
            [
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
              'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            ]
        );
        assert_eq!(
            validate_config_key(&"k".repeat(254)),
            ["must be no more than 253 characters"]
        );
    }

    #[test]
    fn names_in_paths_do_not_leave_their_segment() {
        assert_eq!(validate_path_segment_name("a b..c"), [""; 0]);
        assert_eq!(validate_path_segment_name(".."), ["may not be '..'"]);
        assert_eq!(
            validate_path_segment_name("a/b%"),
            ["may not contain '/'", "may not contain '%'"]
        );
        assert_eq!(validate_path_segment_prefix(".."), [""; 0]);
    }

    #[test]
    fn domain_prefixes_are_asked_for() {
        let at = Path::new("f");
        assert!(validate_domain_prefixed_path(&at, "acme.io/a/b:c").is_empty());
        assert_eq!(validate_domain_prefixed_path(&at, "acme.io/").len(), 1);
        assert_eq!(
            validate_domain_prefixed_path(&at, "acme.io/a b")[0].detail,
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
        );
        assert!(validate_domain_prefixed_key(&at, "acme.io/a").is_empty());
        assert_eq!(
            validate_domain_prefixed_key(&at, "a")[0].detail,
            "must be a domain-prefixed key (such as \"acme.io/foo\")"
        );
    }

    proptest! {
        #[test]
        fn validates_arbitrary_text_without_panic(text in ".{0,80}") {
            let _ = (validate_label_key(&text), validate_label_value(&text), validate_config_key(&text), validate_path_segment_name(&text));
        }

        #[test]
        fn what_fits_the_pattern_is_a_key(text in "([A-Za-z0-9][-A-Za-z0-9_.]{0,50})?[A-Za-z0-9]") {
            prop_assert!(validate_label_key(&text).is_empty());
            prop_assert!(validate_label_value(&text).is_empty());
        }
    }
}
