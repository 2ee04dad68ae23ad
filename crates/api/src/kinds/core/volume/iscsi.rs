//! iSCSI volume sources.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{ErrorList, Tree},
};

const FORMAT: &str = "must be valid format";
const NAMINGS: [&str; 3] = ["iqn", "eui", "naa"];

// upstream: pkg/apis/core/validation/validation.go validateISCSIVolumeSource
pub(super) fn validate_iscsi_volume_source(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let beginning = "must be valid format starting with iqn, eui, or naa";
    field_checks::require_fields(source, &["targetPortal"], at, errors);
    validate_target(source, beginning, at, errors);
    validate_initiator(source, beginning, at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateISCSIPersistentVolumeSource
pub(crate) fn validate_iscsi_persistent_volume_source(
    source: &Value,
    name: &str,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    field_checks::require_fields(source, &["targetPortal"], at, errors);
    if source.has("initiatorName") && is_long(name, source) {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.push(Error::invalid(
            &at.child("targetportal"),
            source.text("targetPortal"),
            detail,
        ));
    }
    validate_target(source, FORMAT, at, errors);
    if source.has("secretRef") {
        let secret = at.child("secretRef");
        field_checks::require_fields(source.at("secretRef"), &["name"], &secret, errors);
    }
    validate_initiator(source, FORMAT, at, errors);
}

/// Whether volume name and portal together exceed the limit of an initiator name.
pub(super) fn is_long(name: &str, source: &Value) -> bool {
    name.len() + 1 + source.text("targetPortal").len() > 64
}

// upstream: pkg/apis/core/validation/validation.go validateISCSIVolumeSource
fn validate_target(source: &Value, beginning: &str, at: &Path<'_>, errors: &mut ErrorList) {
    match source.text("iqn") {
        "" => errors.push(Error::required(&at.child("iqn"), "")),
        name => validate_qualified_name(name, beginning, &at.child("iqn"), errors),
    }
    field_checks::validate_in_range(source, "lun", 0, 255, at, errors);
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.has("secretRef") {
        errors.push(Error::required(&at.child("secretRef"), ""));
    }
}

// upstream: pkg/apis/core/validation/validation.go validateISCSIVolumeSource
fn validate_initiator(source: &Value, beginning: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if source.has("initiatorName") {
        let name = source.text("initiatorName");
        validate_qualified_name(name, beginning, &at.child("initiatorname"), errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateISCSIVolumeSource
fn validate_qualified_name(name: &str, beginning: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let valid = match NAMINGS.into_iter().find(|naming| name.starts_with(naming)) {
        None => {
            errors.push(Error::invalid(at, name, beginning));
            return;
        }
        Some("iqn") => is_iqn(name),
        Some("eui") => is_number(name, 16),
        Some(_) => is_number(name, 32),
    };
    if !valid {
        errors.push(Error::invalid(at, name, FORMAT));
    }
}

/// Matches `iqn.<year>-<month>.<domain>:<anything>`, unanchored as upstream's regular expression.
fn is_iqn(name: &str) -> bool {
    name.match_indices("iqn.").any(|(start, prefix)| {
        let rest = &name[start + prefix.len()..];
        let (Some(date), Some(rest)) = (rest.get(..8), rest.get(8..)) else {
            return false;
        };
        let is_date = date.bytes().enumerate().all(|(at, byte)| match at {
            4 => byte == b'-',
            7 => byte == b'.',
            _ => byte.is_ascii_digit(),
        });
        let Some((domain, own)) = rest.split_once(':') else {
            return false;
        };
        is_date
            && !domain.is_empty()
            && domain
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
            && !own.is_empty()
            && !own.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\r', '\x0c'])
    })
}

/// Three letters, any character, and this number of letters and digits.
fn is_number(name: &str, digits: usize) -> bool {
    let mut rest = name[3..].chars();
    let separator = rest.next();
    let rest = rest.as_str();
    separator.is_some_and(|c| c != '\n')
        && rest.len() == digits
        && rest.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_iscsi_qualified_names() {
        for name in [
            "iqn.2001-04.com.example:storage.disk1",
            "iqn.bad iqn.2001-04.com.example:x",
        ] {
            assert!(is_iqn(name), "{name}");
        }
        for name in [
            "iqn.2001-04.com.example",
            "iqn.2001-4.com.example:a",
            "iqn.2001-04.com.example:a b",
            "iqn.2001-04.:a",
        ] {
            assert!(!is_iqn(name), "{name}");
        }
        assert!(is_number("eui.0123456789ABCDEF", 16));
        assert!(!is_number("naa.62004567BA64678D", 32));
        assert!(!is_number("eui", 16));
    }
}
