//! Issued certificate chains of a PodCertificateRequest: for its key, valid now, and not for too long.

use k3_duration::Duration;
use k3_pki::{AlternativeName, Certificate, CertificateRequest, pem_blocks};
use serde_json::Value;

use super::HOUR;
use crate::{
    field::{BadValue, Error, Path},
    strategy::{ErrorList, Tree, decoded_bytes},
    time::Time,
};

const MAX_CHAIN_BYTES: usize = 100 * 1024;

/// Validates an issued chain: returns the first error, or the few that belong together.
// upstream: pkg/apis/certificates/validation/validation.go ValidatePodCertificateRequestStatusUpdate
pub(super) fn validate_issued_certificate(new: &Value, old: &Value, now: Time) -> ErrorList {
    let root = Path::new("status");
    let status = new.at("status");
    let at = root.child("certificateChain");
    let chain = status.text("certificateChain");
    let wrong = |detail: &str| ErrorList::from(vec![Error::invalid(&at, chain, detail)]);
    if chain.len() > MAX_CHAIN_BYTES {
        return vec![Error::too_long(&at, MAX_CHAIN_BYTES)].into();
    }
    let blocks = pem_blocks(chain.as_bytes());
    let Some((first, others)) = blocks.split_first() else {
        return wrong("issued certificate chain must contain at least one certificate");
    };
    if first.label != "CERTIFICATE" {
        return wrong("issued certificate chain must consist entirely of CERTIFICATE PEM blocks");
    }
    let Ok(leaf) = Certificate::from_der(&first.bytes) else {
        return wrong("leaf certificate does not parse as valid X.509");
    };
    let mut errors = validate_subject_alt_names(&leaf, &at);
    let request = decoded_bytes(old.at("spec").text("stubPKCS10Request"));
    let Ok(request) = CertificateRequest::from_der(&request) else {
        let spec = Path::new("spec");
        let at = spec.child("stubPKCS10Request");
        errors.push(Error::invalid(
            &at,
            BadValue::Omitted,
            "must be a valid PKCS#10 CSR",
        ));
        return errors;
    };
    if *request.public_key() != leaf.public_key {
        errors.extend(wrong(
            "leaf certificate was not issued to the requested public key",
        ));
        return errors;
    }
    errors.extend(validate_times(new, &leaf, now));
    if !errors.is_empty() {
        return errors;
    }
    for block in others {
        if block.label != "CERTIFICATE" {
            return wrong("issued certificate chain must consist entirely of CERTFICATE PEM blocks");
        }
        if Certificate::from_der(&block.bytes).is_err() {
            return wrong("intermediate certificate does not parse as valid X.509");
        }
    }
    ErrorList::new()
}

// upstream: pkg/apis/certificates/validation/validation.go ValidatePodCertificateRequestStatusUpdate
fn validate_subject_alt_names(leaf: &Certificate, at: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    for name in &leaf.names.names {
        let AlternativeName::Dns(host) = name else {
            continue;
        };
        for (bad, detail) in [
            (
                host.is_empty(),
                "leaf certificate should not contain empty DNSName",
            ),
            (
                host.contains(".."),
                "leaf certificate's DNSName should not contain '..'",
            ),
            (
                host.starts_with('.') || host.ends_with('.'),
                "leaf certificate's DNSName should not start or end with '.'",
            ),
        ] {
            if bad {
                errors.push(Error::invalid(at, host, detail));
            }
        }
    }
    for name in &leaf.names.names {
        if let AlternativeName::Email(mail) = name
            && !is_email_address(mail)
        {
            let detail = "leaf certificate should not contain invalid EmailAddress";
            errors.push(Error::invalid(at, mail, detail));
        }
    }
    errors
}

fn is_email_address(text: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && !part.split('.').any(str::is_empty)
            && !part.contains(|c: char| c.is_whitespace() || "()<>[]:;@\\,\"".contains(c))
    };
    text.rsplit_once('@')
        .is_some_and(|(user, host)| plain(user) && plain(host))
}

/// The times of the status must be those of the certificate and within the requested lifetime.
// upstream: pkg/apis/certificates/validation/validation.go ValidatePodCertificateRequestStatusUpdate, timeNear
pub(super) fn validate_times(new: &Value, leaf: &Certificate, now: Time) -> ErrorList {
    let root = Path::new("status");
    let status = new.at("status");
    let read = |field: &str| Time::parse(status.text(field)).ok();
    let fields = ["notBefore", "notAfter", "beginRefreshAt"];
    let [Some(before), Some(after), Some(refresh)] = fields.map(read) else {
        return fields
            .into_iter()
            .filter(|field| read(field).is_none())
            .map(|field| {
                let detail = match field {
                    "beginRefreshAt" => "must be present and in the range [notbefore+10min, notafter-10min]",
                    _ => "must be present and consistent with the issued certificate",
                };
                Error::required(&root.child(field), detail)
            })
            .collect();
    };
    let wrong = |field: &str, detail: &str| {
        ErrorList::from(vec![Error::invalid(
            &root.child(field),
            status.text(field),
            detail,
        )])
    };
    if before != Time::from_unix(leaf.not_before, 0) {
        return wrong(
            "notBefore",
            "must be set to the NotBefore time encoded in the leaf certificate",
        );
    }
    let minutes = |minutes: i64| Duration::from_seconds(60 * minutes);
    if !(now.plus(minutes(-5)) < before && before < now.plus(minutes(5))) {
        return wrong(
            "notBefore",
            "must be set to within 5 minutes of kube-apiserver's current time",
        );
    }
    if after != Time::from_unix(leaf.not_after, 0) {
        return wrong(
            "notAfter",
            "must be set to the NotAfter time encoded in the leaf certificate",
        );
    }
    let at = root.child("certificateChain");
    let lifetime = after.since(before);
    if lifetime < Duration::from_seconds(HOUR) {
        let detail = "leaf certificate lifetime must be >= 1 hour";
        return ErrorList::from(vec![Error::invalid(&at, lifetime.nanos(), detail)]);
    }
    let max = new.at("spec").int_or_zero("maxExpirationSeconds");
    if lifetime > Duration::from_seconds(max) {
        let detail = format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({max})");
        return ErrorList::from(vec![Error::invalid(&at, lifetime.nanos(), detail)]);
    }
    if refresh < before.plus(minutes(10)) {
        return wrong(
            "beginRefreshAt",
            "must be at least 10 minutes after status.notBefore",
        );
    }
    if refresh > after.plus(minutes(-10)) {
        return wrong(
            "beginRefreshAt",
            "must be at least 10 minutes before status.notAfter",
        );
    }
    ErrorList::new()
}
