//! Names of drivers, pools and attributes, and references to requests of a claim.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::{core::volume::source::validate_csi_driver_name, field_checks},
    name,
    strategy::{ErrorList, Tree},
};

const MAX_POOL_NAME: usize = 253;
const MAX_DOMAIN: usize = 63;
const MAX_IDENTIFIER: usize = 32;
/// The longest key of an attribute that errors show whole.
pub(super) const MAX_KEY: usize = MAX_DOMAIN + 1 + MAX_IDENTIFIER;

/// Hand-written validation of a pool name: DNS subdomains separated by slashes.
// upstream: pkg/apis/resource/validation/validation.go validatePoolName
pub(super) fn validate_pool_name(pool: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if pool.is_empty() {
        errors.push(Error::required(at, ""));
        return;
    }
    if pool.len() > MAX_POOL_NAME {
        errors.push(Error::too_long(at, MAX_POOL_NAME));
    }
    for part in pool.split('/') {
        field_checks::validate_dns1123_subdomain(part, at, errors);
    }
}

/// Declarative validation of a pool name.
pub(super) fn validate_declaratively_pool_name(pool: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if pool.is_empty() {
        errors.push(Error::required(at, ""));
        return;
    }
    if pool.len() > MAX_POOL_NAME {
        errors.push(Error::too_long(at, MAX_POOL_NAME));
    }
    for (index, part) in pool.split('/').enumerate() {
        if part.is_empty() {
            let detail = format!("segment {index}: must not be empty");
            errors.push(Error::invalid(at, pool, detail));
        } else {
            for msg in name::validate_dns1123_subdomain(part) {
                errors.push(Error::invalid(at, part, format!("segment {index}: {msg}")));
            }
        }
    }
}

/// Declarative validation of a driver name.
pub(super) fn validate_declaratively_driver_name(driver: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if driver.is_empty() {
        errors.push(Error::required(at, ""));
        return;
    }
    field_checks::validate_dns1123_subdomain_caseless(driver, at, errors);
    if driver.chars().count() > MAX_DOMAIN {
        errors.push(Error::too_long_characters(at, MAX_DOMAIN));
    }
}

/// Hand-written validation of the key of an attribute or capacity: a C identifier, with an optional domain.
// upstream: pkg/apis/resource/validation/validation.go validateQualifiedName
pub(super) fn validate_qualified_name(key: &str, at: &Path<'_>, errors: &mut ErrorList) {
    match key.split_once('/') {
        None => validate_c_identifier(key, at, errors),
        Some((domain, name)) if !name.contains('/') => {
            match domain {
                "" => errors.push(Error::invalid(at, "", "the domain must not be empty")),
                domain => validate_csi_driver_name(domain, at, errors),
            }
            match name {
                "" => errors.push(Error::invalid(at, "", "the name must not be empty")),
                name => validate_c_identifier(name, at, errors),
            }
        }
        Some(_) => {}
    }
}

/// Declarative validation of a fully qualified attribute name.
pub(super) fn validate_declaratively_attribute_name(full: &str, at: &Path<'_>, errors: &mut ErrorList) {
    match full.split_once('/') {
        None => validate_c_identifier(full, at, errors),
        Some((domain, name)) if !name.contains('/') => {
            match domain {
                "" => errors.push(Error::invalid(at, "", "prefix must not be empty")),
                domain => {
                    if domain.len() > MAX_DOMAIN {
                        errors.push(Error::too_long(at, MAX_DOMAIN));
                    }
                    for msg in name::validate_dns1123_subdomain(domain) {
                        errors.push(Error::invalid(at, domain, format!("prefix: {msg}")));
                    }
                }
            }
            match name {
                "" => errors.push(Error::invalid(at, "", "name must not be empty")),
                name => validate_c_identifier(name, at, errors),
            }
        }
        Some(_) => {}
    }
    if !full.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(Error::invalid(at, full, detail));
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateCIdentifier
fn validate_c_identifier(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if name.len() > MAX_IDENTIFIER {
        errors.push(Error::too_long(at, MAX_IDENTIFIER));
    }
    field_checks::push_invalid(name, name::validate_c_identifier(name), at, errors);
}

/// Declarative validation of a share id, which is a UUID.
pub(super) fn validate_declaratively_share_id(value: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(uuid) = value.as_str() else { return };
    let is_valid = uuid.len() == 36
        && uuid.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
    if !is_valid {
        let detail = "must be a lowercase UUID in 8-4-4-4-12 format";
        errors.push(Error::invalid(at, uuid, detail));
    }
}

/// Names of the requests of a claim, with their subrequests.
// upstream: pkg/apis/resource/validation/validation.go requestNames
pub(super) struct RequestNames<'v>(HashMap<&'v str, HashSet<&'v str>>);

impl<'v> RequestNames<'v> {
    /// Gathers the names. Of several equal ones the last counts.
    // upstream: pkg/apis/resource/validation/validation.go gatherRequestNames
    pub(super) fn new(requests: &'v [Value]) -> Self {
        let named = requests.iter().map(|request| {
            let alternatives = request.items("firstAvailable").iter();
            let alternatives = alternatives.map(|alternative| alternative.text("name"));
            (request.text("name"), alternatives.collect())
        });
        RequestNames(named.collect())
    }

    fn has(&self, request: &str, alternative: Option<&str>) -> bool {
        let alternatives = self.0.get(request);
        alternatives.is_some_and(|alternatives| alternative.is_none_or(|name| alternatives.contains(name)))
    }

    /// Validates a reference to a request.
    // upstream: pkg/apis/resource/validation/validation.go validateRequestNameRef
    pub(super) fn validate_reference(&self, reference: &str, at: &Path<'_>, errors: &mut ErrorList) {
        const UNKNOWN_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let (request, alternative) = match reference.split_once('/') {
            Some((request, alternative)) => (request, Some(alternative)),
            None => (reference, None),
        };
        if alternative.is_some_and(|name| name.contains('/')) {
            errors.push(Error::invalid(at, reference, UNKNOWN_REQUEST));
            return;
        }
        field_checks::validate_dns1123_label(request, at, errors);
        if let Some(name) = alternative {
            field_checks::validate_dns1123_label(name, at, errors);
        }
        if !self.has(request, alternative) {
            errors.push(Error::invalid(at, reference, UNKNOWN_REQUEST));
        }
    }

    /// Validates a list of references, unless it is too long, which is reported elsewhere.
    pub(super) fn validate_references(&self, tree: &Value, at: &Path<'_>, errors: &mut ErrorList) {
        if tree.items("requests").len() > super::claim::MAX_REQUESTS {
            return;
        }
        let field_path = at.child("requests");
        for (index, reference) in tree.texts("requests").enumerate() {
            self.validate_reference(reference, &field_path.index(index), errors);
        }
    }
}

/// A key in a field path: the middle of a long one is cut out.
// upstream: pkg/apis/resource/validation/validation.go truncateIfTooLong
pub(super) fn truncate_if_too_long(key: &str, max: usize) -> Cow<'_, str> {
    let max = max.max(16);
    if key.len() <= max {
        return Cow::Borrowed(key);
    }
    let remaining = max - 3;
    let bytes = key.as_bytes();
    let head = &bytes[..remaining.div_ceil(2)];
    let tail = &bytes[bytes.len() - remaining / 2..];
    Cow::Owned(format!(
        "{}...{}",
        String::from_utf8_lossy(head),
        String::from_utf8_lossy(tail)
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn validates_references_to_requests_and_subrequests() {
        let requests = json!([{"name": "a"}, {"name": "b", "firstAvailable": [{"name": "c"}]}]);
        let requests = RequestNames::new(requests.as_array().unwrap());
        let msgs = |reference: &str| {
            let mut errors = ErrorList::new();
            requests.validate_reference(reference, &Path::new("r"), &mut errors);
            errors.len()
        };
        for (reference, count) in [("a", 0), ("b/c", 0), ("b", 0), ("a/c", 1), ("x", 1), ("b/c/d", 1)] {
            assert_eq!(msgs(reference), count, "{reference}");
        }
    }

    #[test]
    fn truncates_long_keys() {
        assert_eq!(
            truncate_if_too_long("abcdefghijklmnopqrstuvwxyz", 16),
            "abcdefg...uvwxyz"
        );
        assert_eq!(truncate_if_too_long("abc", 2), "abc");
    }
}
