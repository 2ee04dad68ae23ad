//! Names of signers: `example.com/signer`.

use crate::{
    field::{Error, Path},
    go, name,
    rules::Errors,
};

const DOMAIN_BYTES: usize = 253;
const NAME_BYTES: usize = DOMAIN_BYTES + (253 + 63 + 1) + 1;

/// What is wrong with the name of a signer.
pub(super) fn validate(signer: &str, at: &Path<'_>, errors: &mut Errors) {
    if signer.is_empty() {
        errors.push(Error::required(at, ""));
        return;
    }
    let parts: Vec<_> = signer.split('/').collect();
    let [domain, path] = parts[..] else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(Error::invalid(at, signer, detail));
        return;
    };
    if domain.len() > DOMAIN_BYTES {
        errors.push(Error::too_long(at, DOMAIN_BYTES));
    }
    validate_labels(domain, name::dns1123_label, at, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(at, domain, detail));
    }
    validate_labels(path, name::dns1123_subdomain, at, errors);
    if signer.len() > NAME_BYTES {
        errors.push(Error::too_long(at, NAME_BYTES));
    }
}

/// Whether a signer is one of the project's own.
pub(super) fn is_own(signer: &str) -> bool {
    let host = signer.split('/').next().unwrap_or_default();
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

/// Tells of the first label that is malformed; more would say the same again.
fn validate_labels(part: &str, rule: fn(&str) -> name::Faults, at: &Path<'_>, errors: &mut Errors) {
    for label in part.split('.') {
        let msgs = rule(label);
        if msgs.is_empty() {
            continue;
        }
        for msg in msgs {
            let detail = format!("validating label {}: {msg}", go::quote(label));
            errors.push(Error::invalid(at, part, detail));
        }
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signer_is_a_path_at_a_domain() {
        let msgs = |signer: &str| {
            let mut errors = Errors::new();
            validate(signer, &Path::new("s"), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(msgs("example.com/s.v1"), [""; 0]);
        assert_eq!(msgs(""), ["s: Required value"]);
        assert_eq!(
            msgs("a/b/c"),
            [
                "s: Invalid value: \"a/b/c\": must be a fully qualified domain and path of the form \
              'example.com/signer-name'"
            ]
        );
        let messages = msgs("A/b");
        assert!(
            messages[0]
                .starts_with("s: Invalid value: \"A\": validating label \"A\": a lowercase RFC 1123 label")
        );
        assert!(messages[1].ends_with("should be a domain with at least two segments separated by dots"));
    }

    #[test]
    fn some_signers_are_reserved() {
        assert!(is_own("kubernetes.io/x") && is_own("a.kubernetes.io/x"));
        assert!(!is_own("notkubernetes.io/x"));
    }
}
