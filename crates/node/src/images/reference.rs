//! Parses image names.
// upstream: pkg/util/parsers/parsers.go ParseImageName

/// An image name cannot be parsed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("couldn't parse image name \"{name}\": {problem}")]
pub struct InvalidImageReference {
    /// Image name of the pod spec.
    pub name: String,
    /// Why it is invalid.
    pub problem: &'static str,
}

/// A parsed image name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    /// Repository with its registry: `docker.io/library/busybox`.
    pub repository: String,
    /// Tag, if given.
    pub tag: Option<String>,
    /// Digest, if given.
    pub digest: Option<String>,
}

// --- ImageReference ---

impl ImageReference {
    /// Parses an image name.
    pub fn parse(name: &str) -> Result<Self, InvalidImageReference> {
        let invalid = |problem| InvalidImageReference {
            name: name.to_owned(),
            problem,
        };
        let (rest, digest) = match name.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (name, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(invalid("invalid reference format"));
        }
        // A colon after the last slash begins a tag; one before it a port.
        let path = rest.rfind('/').map_or(0, |slash| slash + 1);
        let (repository, tag) = match rest[path..].find(':') {
            Some(colon) => (&rest[..path + colon], Some(&rest[path + colon + 1..])),
            None => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(invalid("invalid reference format"));
        }
        let (registry, path) = match repository.split_once('/') {
            Some((first, path)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), path),
            _ => (None, repository),
        };
        if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(invalid(
                "invalid reference format: repository name must be lowercase",
            ));
        }
        if !path.split('/').all(is_component) || registry.is_some_and(|registry| !is_host(registry)) {
            return Err(invalid("invalid reference format"));
        }
        let repository = match registry {
            Some("index.docker.io" | "docker.io") | None if !path.contains('/') => {
                format!("docker.io/library/{path}")
            }
            Some("index.docker.io") | None => format!("docker.io/{path}"),
            Some(registry) => format!("{registry}/{path}"),
        };
        Ok(ImageReference {
            repository,
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

/// Adds the tag `latest` to a name without tag and digest. The rest stays as written: the runtime resolves short names, and may
/// be configured to use another registry than Docker Hub.
// upstream: pkg/kubelet/images/image_manager.go applyDefaultImageTag
pub fn apply_default_image_tag(name: &str) -> Result<String, InvalidImageReference> {
    let reference = ImageReference::parse(name)?;
    Ok(match (reference.tag, reference.digest) {
        (None, None) => format!("{name}:latest"),
        _ => name.to_owned(),
    })
}

fn is_component(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| is_plain(*byte))
        && bytes.last().is_some_and(|byte| is_plain(*byte))
        && bytes.iter().all(|byte| is_plain(*byte) || b"._-".contains(byte))
}

fn is_host(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    text.len() <= 128
        && bytes.first().is_some_and(|byte| is_word(*byte))
        && bytes.iter().all(|byte| is_word(*byte) || b".-".contains(byte))
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty() && hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applies_latest_tag_by_default() {
        let digest = format!("busybox@sha256:{}", "0".repeat(64));
        for (name, full) in [
            ("busybox", "busybox:latest"),
            ("busybox:1.36", "busybox:1.36"),
            ("registry:5000/a/b", "registry:5000/a/b:latest"),
            ("registry:5000/a/b:v1", "registry:5000/a/b:v1"),
            (&digest, &digest),
        ] {
            assert_eq!(apply_default_image_tag(name).as_deref(), Ok(full));
        }
    }

    #[test]
    fn distinguishes_registry_from_repository_path() {
        for (name, repository) in [
            ("busybox", "docker.io/library/busybox"),
            ("a/b", "docker.io/a/b"),
            ("docker.io/a/b", "docker.io/a/b"),
            ("localhost/a:1", "localhost/a"),
            ("example.com:5000/a", "example.com:5000/a"),
        ] {
            assert_eq!(ImageReference::parse(name).unwrap().repository, repository);
        }
    }

    #[test]
    fn rejects_invalid_names() {
        let upper = ImageReference::parse("Busybox").unwrap_err().to_string();
        let expected = "couldn't parse image name \"Busybox\": invalid reference format: repository name must be lowercase";
        assert_eq!(upper, expected);
        for name in ["", "a//b", "a:", "a b", "-a", "a@sha256:12"] {
            assert!(ImageReference::parse(name).is_err(), "{name:?}");
        }
    }
}
