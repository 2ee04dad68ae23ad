//! Keys and values of labels, and the domains before keys.
//!
//! Each rule gives what is wrong, with the messages clients of the API know; nothing means it is valid. Promises: linear in the
//! length of the text, and nothing is allocated for a valid one.

use crate::text::{at_most_bytes, at_most_characters, form, framed, lower_or_digit};

/// What is wrong with a name; empty if nothing is.
pub type ErrorMessages = Vec<String>;

/// The maximum length of a domain.
pub const SUBDOMAIN_LENGTH: usize = 253;
const NAME_LENGTH: usize = 63;
const VALUE_LENGTH: usize = 63;

macro_rules! name_pattern {
    () => {
        "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
    };
}

macro_rules! domain_label_pattern {
    () => {
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    };
}

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character";

// upstream: staging/src/k8s.io/apimachinery/pkg/api/validate/content/kube.go IsLabelKey
/// A key of a label, also called a qualified name: a name, with or without a domain and a slash before it.
pub fn validate_label_key(value: &str) -> ErrorMessages {
    let name_form = || form(NAME_RULE, name_pattern!(), &["MyName", "my.name", "123-abc"]);
    let mut messages = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            let form = name_form();
            return vec![format!(
                "a valid label key {form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            messages.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            messages.extend(
                prefix_messages(prefix)
                    .into_iter()
                    .map(|message| format!("prefix part {message}")),
            );
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_LENGTH {
        messages.push(format!("name part {}", at_most_bytes(NAME_LENGTH)));
    }
    if !is_name(name.as_bytes()) {
        messages.push(format!("name part {}", name_form()));
    }
    messages
}

// upstream: staging/src/k8s.io/apimachinery/pkg/api/validate/content/kube.go IsLabelValue
/// The value of a label.
pub fn validate_label_value(value: &str) -> ErrorMessages {
    let mut messages = Vec::new();
    if value.len() > VALUE_LENGTH {
        messages.push(at_most_bytes(VALUE_LENGTH));
    }
    if !value.is_empty() && !is_name(value.as_bytes()) {
        messages.push(form(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
             must start and end with an alphanumeric character",
            concat!("(", name_pattern!(), ")?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    messages
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsDNS1123Subdomain
/// A domain name.
pub fn validate_dns1123_subdomain(value: &str) -> ErrorMessages {
    subdomain_messages(value.as_bytes())
}

/// What is wrong with a domain name.
pub fn subdomain_messages(value: &[u8]) -> ErrorMessages {
    let mut messages = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH {
        messages.push(at_most_characters(SUBDOMAIN_LENGTH));
    }
    if !is_subdomain(value) {
        messages.push(form(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character",
            concat!(domain_label_pattern!(), "(\\.", domain_label_pattern!(), ")*"),
            &["example.com"],
        ));
    }
    messages
}

/// Whether a text is labels of domains with dots between them, of any length.
pub fn is_subdomain(value: &[u8]) -> bool {
    value.split(|b| *b == b'.').all(is_domain_label)
}

/// Whether a text is one label of a domain, of any length.
pub fn is_domain_label(value: &[u8]) -> bool {
    framed(
        value,
        lower_or_digit,
        |b| lower_or_digit(b) || b == b'-',
        lower_or_digit,
    )
}

/// Whether a byte may be inside the name of a label.
pub fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.'
}

/// The prefix of a key is measured in bytes where a name is measured in characters.
fn prefix_messages(value: &str) -> ErrorMessages {
    let mut messages = validate_dns1123_subdomain(value);
    if value.len() > SUBDOMAIN_LENGTH {
        messages[0] = at_most_bytes(SUBDOMAIN_LENGTH);
    }
    messages
}

fn is_name(value: &[u8]) -> bool {
    let end = |b: u8| b.is_ascii_alphanumeric();
    framed(value, end, is_name_byte, end)
}
