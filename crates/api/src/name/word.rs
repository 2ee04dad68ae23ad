//! C identifiers, environment variable names, port names, percentages.

use k3_labels::text::{all, at_most_characters, between, climbs, form, lower_or_digit};

use super::ErrorMessages;

const PORT_NAME_LENGTH: usize = 15;

/// An identifier of the C language.
pub fn validate_c_identifier(value: &str) -> ErrorMessages {
    let fits = starts_then(
        value,
        |b| b.is_ascii_alphabetic() || b == b'_',
        |b| b.is_ascii_alphanumeric() || b == b'_',
    );
    message_of((!fits).then(|| {
        form(
            "a valid C identifier must start with alphabetic character or '_', followed by a string of \
             alphanumeric characters or '_'",
            "[A-Za-z_][A-Za-z0-9_]*",
            &["my_name", "MY_NAME", "MyName"],
        )
    }))
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsEnvVarName
/// The name of an environment variable, by the old rule.
pub fn validate_env_var_name(value: &str) -> ErrorMessages {
    let first = |b: u8| b.is_ascii_alphabetic() || b"-._".contains(&b);
    let fits = starts_then(value, first, |b| first(b) || b.is_ascii_digit());
    let mut messages = message_of((!fits).then(|| {
        form(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', \
             and must not start with a digit",
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
        )
    }));
    messages.extend(climbs(value));
    messages
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsRelaxedEnvVarName
/// The name of an environment variable, by the rule that holds now: printable ASCII without `=`.
pub fn validate_relaxed_env_var_name(value: &str) -> ErrorMessages {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    let fits = value.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=');
    message_of((!fits).then(|| {
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned()
    }))
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsValidPortName
/// The name of a port: short, lower case, with a letter.
pub fn validate_port_name(value: &str) -> ErrorMessages {
    let mut messages = Vec::new();
    if value.len() > PORT_NAME_LENGTH {
        messages.push(at_most_characters(PORT_NAME_LENGTH));
    }
    if !all(value.as_bytes(), |b| lower_or_digit(b) || b == b'-') {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsValidPortNum
/// The number of a port.
pub fn validate_port_number(number: i64) -> ErrorMessages {
    validate_in_range(number, 1, 65535)
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsInRange
/// A number between two others, both included.
pub fn validate_in_range(number: i64, low: i64, high: i64) -> ErrorMessages {
    message_of((!(low..=high).contains(&number)).then(|| between(low, high)))
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsValidPercent
/// A percentage: digits and `%`.
pub fn validate_percent(value: &str) -> ErrorMessages {
    let fits = value
        .strip_suffix('%')
        .is_some_and(|digits| all(digits.as_bytes(), |b| b.is_ascii_digit()));
    message_of((!fits).then(|| {
        form(
            "a valid percent string must be a numeric string followed by an ending '%'",
            "[0-9]+%",
            &["1%", "93%"],
        )
    }))
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsHTTPHeaderName
/// The name of an HTTP header.
pub fn validate_http_header_name(value: &str) -> ErrorMessages {
    let fits = all(value.as_bytes(), |b| b.is_ascii_alphanumeric() || b == b'-');
    message_of((!fits).then(|| {
        form(
            "a valid HTTP header must consist of alphanumeric characters or '-'",
            "[-A-Za-z0-9]+",
            &["X-Header-Name"],
        )
    }))
}

/// A whole number in its one form: no plus sign, no zeros before it.
pub fn validate_decimal_integer(value: &str) -> ErrorMessages {
    if value.is_empty() {
        return vec!["must be non-empty".to_owned()];
    }
    let digits = value.strip_prefix('-').unwrap_or(value);
    let fits = value == "0" || starts_then(digits, |b| matches!(b, b'1'..=b'9'), |b| b.is_ascii_digit());
    message_of((!fits).then(|| "must be a valid decimal integer in canonical form".to_owned()))
}

fn starts_then(value: &str, first: impl Fn(u8) -> bool, rest: impl Fn(u8) -> bool) -> bool {
    match value.as_bytes() {
        [] => false,
        [head, tail @ ..] => first(*head) && tail.iter().all(|b| rest(*b)),
    }
}

/// The message of a value that does not fit; none of one that does.
fn message_of(misfit: Option<String>) -> ErrorMessages {
    misfit.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_do_not_begin_with_a_digit() {
        assert_eq!(validate_c_identifier("_a9"), [""; 0]);
        for bad in ["", "9a", "a-b"] {
            assert_eq!(
                validate_c_identifier(bad),
                [
                    "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                  alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for \
                  validation is '[A-Za-z_][A-Za-z0-9_]*')"
                ]
            );
        }
    }

    #[test]
    fn validates_env_var_names_by_policy() {
        assert_eq!(validate_env_var_name("-my.ENV_1"), [""; 0]);
        assert_eq!(validate_env_var_name("1a").len(), 1);
        assert_eq!(validate_env_var_name(".."), ["must not be '..'"]);
        assert_eq!(validate_relaxed_env_var_name("1 a/b:c"), [""; 0]);
        assert_eq!(
            validate_relaxed_env_var_name(""),
            ["environment variable name must be non-empty"]
        );
        for bad in ["a=b", "a\tb", "\u{e9}"] {
            assert_eq!(
                validate_relaxed_env_var_name(bad),
                [
                    "a valid environment variable name must consist only of printable ASCII characters other than '='"
                ]
            );
        }
    }

    #[test]
    fn port_names_collect_their_faults() {
        assert_eq!(validate_port_name("http-2"), [""; 0]);
        assert_eq!(
            validate_port_name("-1--2-3456789-10"),
            [
                "must be no more than 15 characters",
                "must contain at least one letter (a-z)",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen",
            ]
        );
        assert_eq!(
            validate_port_name(""),
            [
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must contain at least one letter (a-z)",
            ]
        );
    }

    #[test]
    fn numbers_keep_to_their_range() {
        assert_eq!(validate_port_number(65535), [""; 0]);
        assert_eq!(
            validate_port_number(0),
            ["must be between 1 and 65535, inclusive"]
        );
    }

    #[test]
    fn percentages_and_integers_have_one_form() {
        assert_eq!(validate_percent("100%"), [""; 0]);
        for bad in ["%", "1", "-1%", "1.5%", "1%%"] {
            assert_eq!(
                validate_percent(bad),
                [
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                  regex used for validation is '[0-9]+%')"
                ]
            );
        }
        for good in ["0", "-1", "10"] {
            assert_eq!(validate_decimal_integer(good), [""; 0]);
        }
        for bad in ["-0", "00", "+1", "-", "1a"] {
            assert_eq!(
                validate_decimal_integer(bad),
                ["must be a valid decimal integer in canonical form"]
            );
        }
        assert_eq!(validate_http_header_name("X-A"), [""; 0]);
        assert_eq!(validate_http_header_name("X_A").len(), 1);
    }
}
