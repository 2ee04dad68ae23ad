//! Values that could not be decrypted, as a store returns them.

use bytes::Bytes;

/// The beginning of all encrypted values. No JSON begins so.
pub(crate) const ENCRYPTED: &[u8] = b"k8s:enc:";
/// The prefix of the placeholder of a value that could not be decrypted; the reason follows.
const FAILED: &[u8] = b"k8s:enc:failed:";

/// The placeholder of a value that could not be decrypted.
pub(crate) fn stand_in(reason: &str) -> Bytes {
    [FAILED, reason.as_bytes()].concat().into()
}

/// Why a value that a store returned is not the object that was written; `None` for one that is.
///
/// The reason names provider and key, never the value or secrets.
pub fn undecrypted(value: &[u8]) -> Option<String> {
    if let Some(reason) = value.strip_prefix(FAILED) {
        return Some(String::from_utf8_lossy(reason).into_owned());
    }
    let rest = value.strip_prefix(ENCRYPTED)?;
    Some(format!(
        "it is encrypted with {}, and the server has no encryption configuration for this resource",
        describe(rest)
    ))
}

/// The provider and key in the prefix of a value, behind `k8s:enc:`.
pub(crate) fn describe(rest: &[u8]) -> String {
    let mut parts = rest.splitn(4, |byte| *byte == b':');
    let mut name = || {
        let text = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        let is_name = !text.is_empty() && text.len() <= 253 && text.chars().all(|c| c.is_ascii_graphic());
        is_name.then_some(text)
    };
    let provider = name().unwrap_or_else(|| "an unknown provider".to_owned());
    let _version = name();
    match name() {
        Some(key) => format!("provider {provider}, key {key}"),
        None => format!("provider {provider}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_provider_and_key_and_nothing_else() {
        assert_eq!(undecrypted(br#"{"kind":"Secret"}"#), None);
        let reason = undecrypted(b"k8s:enc:secretbox:v1:key1:\x00\xffbytes").unwrap();
        assert!(reason.contains("provider secretbox, key key1"), "{reason}");
        assert!(!reason.contains("bytes"), "{reason}");
        assert_eq!(undecrypted(&stand_in("why")).as_deref(), Some("why"));
        assert!(
            undecrypted(b"k8s:enc:\xff\xfe")
                .unwrap()
                .contains("unknown provider")
        );
    }
}
