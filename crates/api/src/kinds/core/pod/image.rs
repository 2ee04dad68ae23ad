//! References to images: `registry.example/team/app:1.2@sha256:...`.

/// The longest name of a repository.
const LONGEST: usize = 255;

/// Whether a reference means the newest image: it says `latest`, or neither a tag nor a digest. One that cannot be read
/// does not.
pub(super) fn is_latest(reference: &str) -> bool {
    let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    if reference.len() == 64 && reference.bytes().all(hex) {
        // The identifier of an image, not a reference.
        return false;
    }
    let (named, digest) = match reference.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (reference, None),
    };
    // A colon before the last slash is that of a port.
    let tail = named.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match named[tail..].find(':') {
        Some(colon) => (&named[..tail + colon], Some(&named[tail + colon + 1..])),
        None => (named, None),
    };
    if !is_name(name) || !digest.is_none_or(is_digest) || !tag.is_none_or(is_tag) {
        return false;
    }
    match tag {
        Some(tag) => tag == "latest",
        None => digest.is_none(),
    }
}

fn is_name(name: &str) -> bool {
    let (domain, path) = match name.split_once('/') {
        Some((first, rest)) if is_domain_like(first) => (Some(first), rest),
        _ => (None, name),
    };
    path.len() <= LONGEST && domain.is_none_or(is_domain) && path.split('/').all(is_component)
}

/// What stands before the first slash is a domain if no part of a path could look so.
fn is_domain_like(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|c| c.is_ascii_uppercase())
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bracketed {
        Some(inner) => !inner.is_empty() && inner.bytes().all(|c| c.is_ascii_hexdigit() || c == b':'),
        None => host.split('.').all(label),
    };
    host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit()))
}

/// Runs of small letters and digits, with a dot, one or two underscores, or dashes between them.
fn is_component(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut gaps = part.split(plain).filter(|gap| !gap.is_empty());
    part.starts_with(plain)
        && part.ends_with(plain)
        && gaps.all(|gap| matches!(gap, "." | "_" | "__") || gap.bytes().all(|c| c == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    (1..=128).contains(&tag.len())
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|c| word(c) || matches!(c, b'.' | b'-'))
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
    hex.len() == length
        && hex
            .bytes()
            .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_references_that_say_so_or_say_nothing_are_the_latest() {
        for image in [
            "nginx",
            "team/app",
            "host:5000/app",
            "nginx:latest",
            "localhost/a/b",
            "Host/app",
            "a__b",
        ] {
            assert!(is_latest(image), "{image}");
        }
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        for image in [
            "",
            "nginx:1",
            "NGINX",
            "host:5000/app:2",
            "a b",
            "a___b",
            "a/",
            &digest,
            &"a".repeat(64),
        ] {
            assert!(!is_latest(image), "{image}");
        }
    }
}
