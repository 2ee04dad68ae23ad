//! Block devices over iSCSI.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{ErrorList, Tree},
};

const FORMAT: &str = "must be valid format";
const NAMINGS: [&str; 3] = ["iqn", "eui", "naa"];

/// The source of a volume of a pod.
pub(super) fn of_pod(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let beginning = "must be valid format starting with iqn, eui, or naa";
    field_checks::require_fields(source, &["targetPortal"], at, errors);
    device(source, beginning, at, errors);
    initiator(source, beginning, at, errors);
}

/// The source of a persistent volume.
pub(crate) fn of_volume(source: &Value, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["targetPortal"], at, errors);
    if source.has("initiatorName") && is_long(name, source) {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.push(Error::invalid(
            &at.child("targetportal"),
            source.text("targetPortal"),
            detail,
        ));
    }
    device(source, FORMAT, at, errors);
    if source.has("secretRef") {
        let secret = at.child("secretRef");
        field_checks::require_fields(source.at("secretRef"), &["name"], &secret, errors);
    }
    initiator(source, FORMAT, at, errors);
}

/// Whether name and portal together are too long for an initiator of their own.
pub(super) fn is_long(name: &str, source: &Value) -> bool {
    name.len() + 1 + source.text("targetPortal").len() > 64
}

fn device(source: &Value, beginning: &str, at: &Path<'_>, errors: &mut ErrorList) {
    match source.text("iqn") {
        "" => errors.push(Error::required(&at.child("iqn"), "")),
        name => naming(name, beginning, &at.child("iqn"), errors),
    }
    field_checks::validate_in_range(source, "lun", 0, 255, at, errors);
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.has("secretRef") {
        errors.push(Error::required(&at.child("secretRef"), ""));
    }
}

fn initiator(source: &Value, beginning: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if source.has("initiatorName") {
        let name = source.text("initiatorName");
        naming(name, beginning, &at.child("initiatorname"), errors);
    }
}

fn naming(name: &str, beginning: &str, at: &Path<'_>, errors: &mut ErrorList) {
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

/// `iqn.<year>-<month>.<domain>:<anything>`, here or further on.
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

/// Three letters, any character, and so many letters and digits.
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
    fn names_are_qualified_by_date_or_numbers() {
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
