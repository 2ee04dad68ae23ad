//! The audit ID of a request: in the response, the access log and the audit log.

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
};

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::registry::random_bytes;

/// The header that carries it, both ways.
pub(super) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Generates audit IDs. They are unique and not secret: a counter mixed with a per-server seed.
pub(super) struct RequestIds {
    seeds: [u64; 2],
    next: AtomicU64,
}

// --- RequestIds ---

impl RequestIds {
    pub(super) fn new() -> Self {
        RequestIds {
            seeds: [0; 2].map(|_: u64| u64::from_ne_bytes(random_bytes())),
            next: AtomicU64::new(0),
        }
    }

    /// The audit ID: the client's `Audit-ID` header, or a new UUID.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/audit_init.go withAuditInit
    pub(super) fn of(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(AUDIT_ID) {
            Some(given) if !given.is_empty() => given.clone(),
            _ => self.made(),
        }
    }

    fn made(&self) -> HeaderValue {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let [high, low] = self.seeds.map(|seed| mixed(seed.wrapping_add(number)));
        let mut text = String::with_capacity(36);
        write!(
            text,
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        )
        .expect("text can be written to memory");
        HeaderValue::try_from(text).expect("digits and dashes are a header")
    }
}

/// A number from which its neighbours cannot be seen.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn generates_unique_audit_id_or_keeps_header() {
        let ids = RequestIds::new();
        let made: HashSet<_> = (0..1000).map(|_| ids.of(&HeaderMap::new())).collect();
        assert_eq!(made.len(), 1000);
        let one = ids.made();
        let one = one.to_str().unwrap();
        assert!(
            one.len() == 36 && &one[14..15] == "4" && "89ab".contains(&one[19..20]),
            "{one}"
        );
        let given = HeaderMap::from_iter([(AUDIT_ID, HeaderValue::from_static("mine"))]);
        assert_eq!(ids.of(&given), "mine");
    }
}
