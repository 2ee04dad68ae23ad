//! Validates ObjectMeta: name, generateName, labels, annotations, finalizers.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go ValidateAnnotations, ValidateFinalizers, ValidateFinalizerName

use serde_json::{Map, Value};

use super::{
    ErrorMessages,
    address::validate_ip,
    dns::{label_messages, label1035_messages},
    key::{validate_path_segment_name, validate_path_segment_prefix},
};
use crate::field::{Error, Path};
use k3_labels::key::{subdomain_messages, validate_label_key, validate_label_value};

/// What the names of a kind look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFormat {
    /// A domain name. Most kinds.
    Subdomain,
    /// A label of a domain name.
    Label,
    /// A label that begins with a letter.
    Label1035,
    /// Anything that can stand in a path.
    PathSegment,
    /// An address of the Internet Protocol in its one form.
    Address,
    /// Anything: the kind validates names itself, or not at all.
    Any,
}

const ANNOTATIONS_BYTES: usize = 256 * 1024;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What is wrong with labels.
pub fn validate_labels(at: &Path<'_>, labels: &Map<String, Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        errors.extend(
            validate_label_key(key)
                .into_iter()
                .map(|message| Error::invalid(at, key, message)),
        );
        if let Some(value) = value.as_str() {
            errors.extend(
                validate_label_value(value)
                    .into_iter()
                    .map(|message| Error::invalid(at, value, message)),
            );
        }
    }
    errors
}

/// What is wrong with annotations. Their keys may be written in any case.
pub fn validate_annotations(at: &Path<'_>, annotations: &Map<String, Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut bytes = 0;
    for (key, value) in annotations {
        errors.extend(
            validate_label_key(&key.to_lowercase())
                .into_iter()
                .map(|message| Error::invalid(at, key, message)),
        );
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_BYTES {
        errors.push(Error::too_long(at, ANNOTATIONS_BYTES));
    }
    errors
}

/// What is wrong with finalizers.
pub fn validate_finalizers(at: &Path<'_>, finalizers: &[&str]) -> Vec<Error> {
    let mut errors = Vec::new();
    for name in finalizers {
        errors.extend(
            validate_label_key(name)
                .into_iter()
                .map(|message| Error::invalid(at, *name, message)),
        );
    }
    if finalizers.contains(&ORPHAN) && finalizers.contains(&FOREGROUND) {
        let shown = Value::from(finalizers.to_vec());
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(Error::invalid(at, shown, detail));
    }
    errors
}

// --- NameFormat ---

impl NameFormat {
    /// What is wrong with a name.
    pub fn name(self, name: &str) -> ErrorMessages {
        match self {
            NameFormat::PathSegment => validate_path_segment_name(name),
            NameFormat::Address => address_faults(name),
            NameFormat::Any => Vec::new(),
            _ => self.dns(name.as_bytes()),
        }
    }

    /// What is wrong with the beginning of a name that the server will complete.
    pub fn prefix(self, prefix: &str) -> ErrorMessages {
        match self {
            NameFormat::PathSegment => return validate_path_segment_prefix(prefix),
            NameFormat::Address | NameFormat::Any => return self.name(prefix),
            NameFormat::Subdomain | NameFormat::Label | NameFormat::Label1035 => {}
        }
        match prefix.as_bytes() {
            // A dash at the end is fine, something follows it. The character before it is not validated here, as
            // clients are used to; the complete name is validated again.
            [head @ .., _, b'-'] => self.dns(&[head, b"a"].concat()),
            other => self.dns(other),
        }
    }

    fn dns(self, name: &[u8]) -> ErrorMessages {
        match self {
            NameFormat::Label => label_messages(name),
            NameFormat::Label1035 => label1035_messages(name),
            _ => subdomain_messages(name),
        }
    }
}

fn address_faults(name: &str) -> ErrorMessages {
    validate_ip(&Path::NIL, name)
        .into_iter()
        .map(|error| error.detail)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_prefix_may_end_with_a_dash() {
        for rule in [NameFormat::Subdomain, NameFormat::Label, NameFormat::Label1035] {
            assert_eq!(rule.prefix("web-"), [""; 0]);
            assert_eq!(rule.prefix("web"), [""; 0]);
            assert_eq!(rule.prefix("-").len(), 1);
            assert_eq!(rule.prefix("W-b-").len(), 1);
            assert_eq!(rule.name("web-").len(), 1);
        }
        assert_eq!(NameFormat::PathSegment.prefix(".."), [""; 0]);
        assert_eq!(NameFormat::PathSegment.name("system:x Y"), [""; 0]);
        assert_eq!(NameFormat::Any.name("a/b"), [""; 0]);
        assert_eq!(NameFormat::Address.name("2001:db8::1"), [""; 0]);
        assert_eq!(
            NameFormat::Address.name("010.0.0.1"),
            ["must not have leading 0s"]
        );
    }

    #[test]
    fn validates_label_keys_and_values() {
        let at = Path::new("l");
        let errors = validate_labels(&at, &map(&json!({"a": "b", "c d": "e", "f": "-"})));
        let shown: Vec<_> = errors.iter().map(|e| e.value.clone()).collect();
        assert_eq!(shown, ["c d".into(), "-".into()]);
    }

    #[test]
    fn annotations_share_a_budget_and_ignore_case() {
        let at = Path::new("a");
        assert!(validate_annotations(&at, &map(&json!({"E.COM/X": "any <value>\n"}))).is_empty());
        let max = "v".repeat(ANNOTATIONS_BYTES - 1);
        assert!(validate_annotations(&at, &map(&json!({"k": max}))).is_empty());
        let errors = validate_annotations(&at, &map(&json!({"k": max, "l": ""})));
        assert_eq!(
            errors[0].to_string(),
            "a: Too long: may not be more than 262144 bytes"
        );
    }

    #[test]
    fn one_cannot_orphan_and_wait_for_dependents() {
        let at = Path::new("f");
        assert!(validate_finalizers(&at, &["a.b/c", ORPHAN]).is_empty());
        assert_eq!(
            validate_finalizers(&at, &[ORPHAN, FOREGROUND])[0].to_string(),
            "f: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot \
             be both set"
        );
    }
}
