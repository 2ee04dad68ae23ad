//! Image references: `[domain/]path[:tag][@digest]`, as github.com/distribution/reference parses them.

const MAX_NAME_LENGTH: usize = 255;

/// The tag of an image: `latest` without tag and digest, none with only a digest or if the reference is malformed.
// upstream: pkg/apis/core/v1/defaults.go SetDefaults_Container
pub(crate) fn tag(reference: &str) -> Option<&str> {
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return None;
    }
    let (domain, remainder) = split_domain(rest);
    let (path, tag) = match remainder.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (remainder, None),
    };
    // A name of 64 hexadecimal digits would be taken for an identifier.
    let identifier = rest.len() == 64 && rest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let length = domain.map_or("docker.io/library/".len(), |domain| domain.len() + 1) + path.len();
    if identifier
        || length > MAX_NAME_LENGTH
        || !domain.is_none_or(is_domain)
        || !path.split('/').all(is_component)
        || !tag.is_none_or(is_tag)
    {
        return None;
    }
    match (tag, digest) {
        (Some(tag), _) => Some(tag),
        (None, None) => Some("latest"),
        (None, Some(_)) => None,
    }
}

/// Splits off a domain, if the part before the first slash looks like one.
fn split_domain(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.bytes().any(|b| b.is_ascii_uppercase()) =>
        {
            (Some(first), rest)
        }
        _ => (None, name),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rfind(':') {
        Some(colon) if !domain.ends_with(']') => (&domain[..colon], Some(&domain[colon + 1..])),
        _ => (domain, None),
    };
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':'),
        None => host.split('.').all(is_part),
    };
    is_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

/// Lower case letters and digits, separated by `.`, `_`, `__` or dashes.
fn is_component(component: &str) -> bool {
    let is_letter = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    is_letter(first)
        && is_letter(last)
        && bytes
            .split(is_letter)
            .all(|parted| matches!(parted, b"" | b"." | b"_" | b"__") || parted.iter().all(|b| *b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let mut bytes = tag.bytes();
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= 128
        && bytes.next().is_some_and(is_word)
        && bytes.all(|b| is_word(b) || b == b'.' || b == b'-')
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return false;
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn defaults_the_tag_to_latest() {
        let digest = format!("sha256:{}", "a".repeat(64));
        assert_eq!(tag("nginx"), Some("latest"));
        assert_eq!(tag("nginx:1.27"), Some("1.27"));
        assert_eq!(tag("registry:5000/team/app"), Some("latest"));
        assert_eq!(tag("registry:5000/team/app:v1"), Some("v1"));
        assert_eq!(tag(&format!("nginx@{digest}")), None);
        assert_eq!(tag(&format!("nginx:latest@{digest}")), Some("latest"));
    }

    #[test]
    fn malformed_references_have_no_tag() {
        for text in [
            "",
            "Nginx",
            "a//b",
            "a:",
            "a/B",
            "a@sha256:12",
            "-a",
            "a..b",
            "a___b",
        ] {
            assert_eq!(tag(text), None, "{text:?}");
        }
    }
}
