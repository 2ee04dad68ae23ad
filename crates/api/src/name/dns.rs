//! DNS labels and subdomains (RFC 1123, RFC 1035).

use k3_labels::{
    key::{SUBDOMAIN_LENGTH, is_domain_label, is_subdomain, validate_dns1123_subdomain},
    text::{at_most_characters, form, framed, lower_or_digit},
};

use super::ErrorMessages;
use crate::field::{Error, Path};

const LABEL_LENGTH: usize = 63;

macro_rules! label_pattern {
    () => {
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    };
}

macro_rules! subdomain_pattern {
    () => {
        concat!(label_pattern!(), "(\\.", label_pattern!(), ")*")
    };
}

macro_rules! underscored_pattern {
    () => {
        "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
    };
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsDNS1123Label
/// A label of a domain name: lower case letters, digits, and dashes inside.
pub fn validate_dns1123_label(value: &str) -> ErrorMessages {
    label_messages(value.as_bytes())
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsDNS1035Label
/// A label that begins with a letter.
pub fn validate_dns1035_label(value: &str) -> ErrorMessages {
    label1035_messages(value.as_bytes())
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsDNS1123SubdomainWithUnderscore
/// A domain name whose labels may have underscores.
pub fn validate_dns1123_subdomain_with_underscore(value: &str) -> ErrorMessages {
    let label = |label: &[u8]| {
        let rest = label.strip_prefix(b"_").unwrap_or(label);
        framed(
            rest,
            lower_or_digit,
            |b| lower_or_digit(b) || b == b'-' || b == b'_',
            lower_or_digit,
        )
    };
    let fits = value.as_bytes().split(|b| *b == b'.').all(label);
    let misfit = || {
        form(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
             and must start and end with an alphanumeric character",
            concat!(underscored_pattern!(), "(\\.", underscored_pattern!(), ")*"),
            &["example.com"],
        )
    };
    messages(value.len(), SUBDOMAIN_LENGTH, (!fits).then(misfit))
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsWildcardDNS1123Subdomain
/// A domain name after `*.`.
pub fn validate_wildcard_dns1123_subdomain(value: &str) -> ErrorMessages {
    let fits = value
        .strip_prefix("*.")
        .is_some_and(|rest| is_subdomain(rest.as_bytes()));
    let misfit = || {
        form(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
             consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            concat!("\\*\\.", subdomain_pattern!()),
            &["*.example.com"],
        )
    };
    messages(value.len(), SUBDOMAIN_LENGTH, (!fits).then(misfit))
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsFullyQualifiedName
/// A domain name of at least three labels.
pub fn validate_fully_qualified_name(at: &Path<'_>, name: &str) -> Vec<Error> {
    if name.is_empty() {
        return vec![Error::required(at, "")];
    }
    let messages = validate_dns1123_subdomain(name);
    if !messages.is_empty() {
        return vec![Error::invalid(at, name, messages.join(","))];
    }
    if name.split('.').count() < 3 {
        return vec![Error::invalid(
            at,
            name,
            "should be a domain with at least three segments separated by dots",
        )];
    }
    Vec::new()
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsFullyQualifiedDomainName
/// A domain name of at least two labels, with or without a dot at the end.
pub fn validate_fully_qualified_domain(at: &Path<'_>, name: &str) -> Vec<Error> {
    if name.is_empty() {
        return vec![Error::required(at, "")];
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = validate_dns1123_subdomain(name);
    if !messages.is_empty() {
        return vec![Error::invalid(at, name, messages.join(","))];
    }
    if name.split('.').count() < 2 {
        return vec![Error::invalid(
            at,
            name,
            "should be a domain with at least two segments separated by dots",
        )];
    }
    for label in name.split('.') {
        let messages = validate_dns1123_label(label);
        if !messages.is_empty() {
            return vec![Error::invalid(at, label, messages.join(","))];
        }
    }
    Vec::new()
}

pub(super) fn label_messages(value: &[u8]) -> ErrorMessages {
    let misfit = || {
        if is_subdomain(value) {
            return "must not contain dots".to_owned();
        }
        form(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
             and end with an alphanumeric character",
            label_pattern!(),
            &["my-name", "123-abc"],
        )
    };
    messages(value.len(), LABEL_LENGTH, (!is_domain_label(value)).then(misfit))
}

pub(super) fn label1035_messages(value: &[u8]) -> ErrorMessages {
    let fits = framed(
        value,
        |b| b.is_ascii_lowercase(),
        |b| lower_or_digit(b) || b == b'-',
        lower_or_digit,
    );
    let misfit = || {
        form(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        )
    };
    messages(value.len(), LABEL_LENGTH, (!fits).then(misfit))
}

/// The messages about a length and a form; `misfit` is that of a value without the form.
fn messages(length: usize, max: usize, misfit: Option<String>) -> ErrorMessages {
    let mut messages = Vec::new();
    if length > max {
        messages.push(at_most_characters(max));
    }
    messages.extend(misfit);
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
        must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
        validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

    #[test]
    fn validates_dns1123_labels() {
        for good in ["a", "0", "a-b", "a--b", &"x".repeat(63)] {
            assert_eq!(validate_dns1123_label(good), [""; 0], "{good}");
        }
        for bad in ["", "-", "a-", "-a", "A", "a_b", "\u{e9}", "a b", "a\n"] {
            assert_eq!(validate_dns1123_label(bad), [LABEL], "{bad}");
        }
        assert_eq!(validate_dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            validate_dns1123_label(&"x".repeat(64)),
            ["must be no more than 63 characters"]
        );
        assert_eq!(
            validate_dns1123_label(&"X".repeat(64)),
            ["must be no more than 63 characters", LABEL]
        );
    }

    #[test]
    fn subdomains_are_labels_between_dots() {
        for good in ["a", "a.b-c.0", &"x".repeat(253)] {
            assert_eq!(validate_dns1123_subdomain(good), [""; 0], "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a.-b", "A.b", "a/b"] {
            let messages = validate_dns1123_subdomain(bad);
            assert_eq!(messages.len(), 1, "{bad}");
            assert!(messages[0].ends_with(
                "(e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ));
        }
        assert_eq!(
            validate_dns1123_subdomain(&"x".repeat(254)),
            ["must be no more than 253 characters"]
        );
    }

    #[test]
    fn older_labels_begin_with_a_letter() {
        assert_eq!(validate_dns1035_label("a-1"), [""; 0]);
        for bad in ["1a", "", "a-", "A"] {
            assert_eq!(
                validate_dns1035_label(bad),
                [
                    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                  alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                  regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                ]
            );
        }
    }

    #[test]
    fn wildcards_stand_first_and_alone() {
        assert_eq!(validate_wildcard_dns1123_subdomain("*.a.b"), [""; 0]);
        for bad in ["a.b", "*", "*.", "*.*.b", "*a.b"] {
            assert_eq!(validate_wildcard_dns1123_subdomain(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn underscores_are_allowed_where_asked_for() {
        for good in ["_a.b", "a_b", "_dmarc.example.com"] {
            assert_eq!(
                validate_dns1123_subdomain_with_underscore(good),
                [""; 0],
                "{good}"
            );
        }
        for bad in ["__a", "a_", "_", "a._"] {
            assert_eq!(validate_dns1123_subdomain_with_underscore(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn qualified_domains_have_enough_labels() {
        let at = Path::new("f");
        assert!(validate_fully_qualified_name(&at, "a.b.c").is_empty());
        assert_eq!(
            validate_fully_qualified_name(&at, "a.b")[0].to_string(),
            "f: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots"
        );
        assert!(validate_fully_qualified_domain(&at, "a.b.").is_empty());
        assert_eq!(
            validate_fully_qualified_domain(&at, "")[0].to_string(),
            "f: Required value"
        );
        assert_eq!(
            validate_fully_qualified_domain(&at, &format!("a.{}", "x".repeat(64)))[0].detail,
            "must be no more than 63 characters"
        );
    }
}
