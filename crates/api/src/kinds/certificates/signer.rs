//! Signer names: `example.com/signer`.

use crate::{
    field::{Error, Path},
    go, name,
    strategy::ErrorList,
};

const MAX_DOMAIN_BYTES: usize = 253;
const MAX_NAME_BYTES: usize = MAX_DOMAIN_BYTES + (253 + 63 + 1) + 1;

// upstream: pkg/apis/certificates/validation/validation.go ValidateCertificateSigningRequestCreate
pub(super) fn validate_signer_name(signer: &str, at: &Path<'_>, errors: &mut ErrorList) {
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
    if domain.len() > MAX_DOMAIN_BYTES {
        errors.push(Error::too_long(at, MAX_DOMAIN_BYTES));
    }
    validate_labels(domain, name::validate_dns1123_label, at, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(at, domain, detail));
    }
    validate_labels(path, name::validate_dns1123_subdomain, at, errors);
    if signer.len() > MAX_NAME_BYTES {
        errors.push(Error::too_long(at, MAX_NAME_BYTES));
    }
}

/// Whether a signer name is in the reserved domain `kubernetes.io`.
pub(super) fn is_kubernetes_signer(signer: &str) -> bool {
    let host = signer.split('/').next().unwrap_or_default();
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

/// Reports the first malformed label only; the others would give the same message.
fn validate_labels(
    segment: &str,
    rule: fn(&str) -> name::ErrorMessages,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    for label in segment.split('.') {
        let msgs = rule(label);
        if msgs.is_empty() {
            continue;
        }
        for msg in msgs {
            let detail = format!("validating label {}: {msg}", go::quote(label));
            errors.push(Error::invalid(at, segment, detail));
        }
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_malformed_signer_names() {
        let msgs = |signer: &str| {
            let mut errors = ErrorList::new();
            validate_signer_name(signer, &Path::new("s"), &mut errors);
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
    fn recognizes_kubernetes_signers() {
        assert!(is_kubernetes_signer("kubernetes.io/x") && is_kubernetes_signer("a.kubernetes.io/x"));
        assert!(!is_kubernetes_signer("notkubernetes.io/x"));
    }
}
