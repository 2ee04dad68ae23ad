//! Names of drivers, pools, attributes, and of requests in a claim.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::{core::volume::source::validate_csi_driver_name, field_checks},
    name,
    rules::{Errors, Tree},
};

/// The longest pool name, and the longest domain and name of an attribute.
const POOL: usize = 253;
const DOMAIN: usize = 63;
const IDENTIFIER: usize = 32;
/// The longest key of an attribute that is shown whole.
pub(super) const KEY: usize = DOMAIN + 1 + IDENTIFIER;

/// The name of a pool, judged by hand: domain names parted by slashes.
pub(super) fn pool(pool: &str, at: &Path<'_>, errors: &mut Errors) {
    if pool.is_empty() {
        errors.push(Error::required(at, ""));
        return;
    }
    if pool.len() > POOL {
        errors.push(Error::too_long(at, POOL));
    }
    for part in pool.split('/') {
        field_checks::validate_dns1123_subdomain(part, at, errors);
    }
}

/// The name of a pool, as the types declare it.
pub(super) fn declared_pool(pool: &str, at: &Path<'_>, errors: &mut Errors) {
    if pool.is_empty() {
        errors.push(Error::required(at, ""));
        return;
    }
    if pool.len() > POOL {
        errors.push(Error::too_long(at, POOL));
    }
    for (index, part) in pool.split('/').enumerate() {
        if part.is_empty() {
            let detail = format!("segment {index}: must not be empty");
            errors.push(Error::invalid(at, pool, detail));
        } else {
            for msg in name::dns1123_subdomain(part) {
                errors.push(Error::invalid(at, part, format!("segment {index}: {msg}")));
            }
        }
    }
}

/// The name of a driver, as the types declare it.
pub(super) fn declared_driver(driver: &str, at: &Path<'_>, errors: &mut Errors) {
    if driver.is_empty() {
        errors.push(Error::required(at, ""));
        return;
    }
    field_checks::validate_dns1123_subdomain_caseless(driver, at, errors);
    if driver.chars().count() > DOMAIN {
        errors.push(Error::too_long_characters(at, DOMAIN));
    }
}

/// The key of an attribute or capacity, judged by hand: an identifier, with or without the domain of a driver.
pub(super) fn qualified(key: &str, at: &Path<'_>, errors: &mut Errors) {
    match key.split_once('/') {
        None => identifier(key, at, errors),
        Some((domain, name)) if !name.contains('/') => {
            match domain {
                "" => errors.push(Error::invalid(at, "", "the domain must not be empty")),
                domain => validate_csi_driver_name(domain, at, errors),
            }
            match name {
                "" => errors.push(Error::invalid(at, "", "the name must not be empty")),
                name => identifier(name, at, errors),
            }
        }
        Some(_) => {}
    }
}

/// The name of an attribute with its domain, as the types declare it.
pub(super) fn declared_full(full: &str, at: &Path<'_>, errors: &mut Errors) {
    match full.split_once('/') {
        None => identifier(full, at, errors),
        Some((domain, name)) if !name.contains('/') => {
            match domain {
                "" => errors.push(Error::invalid(at, "", "prefix must not be empty")),
                domain => {
                    if domain.len() > DOMAIN {
                        errors.push(Error::too_long(at, DOMAIN));
                    }
                    for msg in name::dns1123_subdomain(domain) {
                        errors.push(Error::invalid(at, domain, format!("prefix: {msg}")));
                    }
                }
            }
            match name {
                "" => errors.push(Error::invalid(at, "", "name must not be empty")),
                name => identifier(name, at, errors),
            }
        }
        Some(_) => {}
    }
    if !full.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(Error::invalid(at, full, detail));
    }
}

fn identifier(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.len() > IDENTIFIER {
        errors.push(Error::too_long(at, IDENTIFIER));
    }
    field_checks::push_invalid(name, name::c_identifier(name), at, errors);
}

/// The identity of a share, as the types declare it.
pub(super) fn declared_uuid(value: &Value, at: &Path<'_>, errors: &mut Errors) {
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

/// The names that requests of a claim go by: a request, or a request and one of its alternatives.
pub(super) struct Requests<'v>(HashMap<&'v str, HashSet<&'v str>>);

impl<'v> Requests<'v> {
    /// The names of these requests. Of several by one name, the last counts.
    pub(super) fn new(requests: &'v [Value]) -> Self {
        let named = requests.iter().map(|request| {
            let alternatives = request.items("firstAvailable").iter();
            let alternatives = alternatives.map(|alternative| alternative.text("name"));
            (request.text("name"), alternatives.collect())
        });
        Requests(named.collect())
    }

    fn has(&self, request: &str, alternative: Option<&str>) -> bool {
        let found = self.0.get(request);
        found.is_some_and(|alternatives| alternative.is_none_or(|name| alternatives.contains(name)))
    }

    /// What is wrong with a reference to a request.
    pub(super) fn judge(&self, reference: &str, at: &Path<'_>, errors: &mut Errors) {
        const KNOWN: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let (request, alternative) = match reference.split_once('/') {
            Some((request, alternative)) => (request, Some(alternative)),
            None => (reference, None),
        };
        if alternative.is_some_and(|name| name.contains('/')) {
            errors.push(Error::invalid(at, reference, KNOWN));
            return;
        }
        field_checks::validate_dns1123_label(request, at, errors);
        if let Some(name) = alternative {
            field_checks::validate_dns1123_label(name, at, errors);
        }
        if !self.has(request, alternative) {
            errors.push(Error::invalid(at, reference, KNOWN));
        }
    }

    /// What is wrong with a list of references, unless it is too long, which others tell.
    pub(super) fn judge_all(&self, tree: &Value, at: &Path<'_>, errors: &mut Errors) {
        if tree.items("requests").len() > super::claim::REQUESTS {
            return;
        }
        let field_path = at.child("requests");
        for (index, reference) in tree.texts("requests").enumerate() {
            self.judge(reference, &field_path.index(index), errors);
        }
    }
}

/// A key as the path of an error shows it: too long ones lose their middle.
pub(super) fn shortened(key: &str, most: usize) -> Cow<'_, str> {
    let most = most.max(16);
    if key.len() <= most {
        return Cow::Borrowed(key);
    }
    let remaining = most - 3;
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
    fn requests_and_their_alternatives_are_known_by_name() {
        let requests = json!([{"name": "a"}, {"name": "b", "firstAvailable": [{"name": "c"}]}]);
        let requests = Requests::new(requests.as_array().unwrap());
        let msgs = |reference: &str| {
            let mut errors = Errors::new();
            requests.judge(reference, &Path::new("r"), &mut errors);
            errors.len()
        };
        for (reference, count) in [("a", 0), ("b/c", 0), ("b", 0), ("a/c", 1), ("x", 1), ("b/c/d", 1)] {
            assert_eq!(msgs(reference), count, "{reference}");
        }
    }

    #[test]
    fn long_keys_lose_their_middle() {
        assert_eq!(shortened("abcdefghijklmnopqrstuvwxyz", 16), "abcdefg...uvwxyz");
        assert_eq!(shortened("abc", 2), "abc");
    }
}
