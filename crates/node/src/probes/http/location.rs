//! URLs of requests and targets of redirects.

use std::fmt::Write;

use http::{Uri, uri::InvalidUri};
use k8s_openapi::api::core::v1::HTTPGetAction;

use crate::probes::dial::join_host_port;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct RedirectTarget {
    pub(super) uri: Uri,
    /// Whether the `Location` header contains a host.
    pub(super) is_absolute: bool,
}

/// An action, and the address of its pod, make no URL.
#[derive(Debug, thiserror::Error)]
#[error("{url}: {source}")]
pub struct InvalidUrlError {
    url: String,
    source: InvalidUri,
}

/// The URL of an HTTP action.
// upstream: pkg/probe/http/request.go formatURL, NewRequestForHTTPGetAction
pub(super) fn format_url(
    action: &HTTPGetAction,
    pod_address: &str,
    port: u16,
) -> Result<Uri, InvalidUrlError> {
    let host = action.host.as_deref().filter(|host| !host.is_empty());
    let scheme = action.scheme.as_deref().filter(|scheme| !scheme.is_empty());
    let scheme = scheme.unwrap_or("http").to_lowercase();
    let authority = join_host_port(host.unwrap_or(pod_address), port);
    let path = percent_encode(action.path.as_deref().unwrap_or_default());
    let url = format!("{scheme}://{authority}{}", with_leading_slash(&path));
    url.parse().map_err(|source| InvalidUrlError { url, source })
}

/// Resolves a `Location` header relative to the URL of the request.
pub(super) fn resolve_redirect(from: &Uri, location: &str) -> Option<RedirectTarget> {
    let location = percent_encode(location);
    let is_absolute = location.starts_with("//") || location.contains("://");
    let scheme = from.scheme_str().unwrap_or("http");
    let authority = from.authority()?.as_str();
    let url = if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if is_absolute {
        location
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{}{location}", from.path())
    } else {
        let directory = from
            .path()
            .rsplit_once('/')
            .map_or("", |(directory, _)| directory);
        format!("{scheme}://{authority}{directory}/{location}")
    };
    let uri: Uri = url.parse().ok()?;
    Some(RedirectTarget { uri, is_absolute })
}

fn with_leading_slash(path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    format!("/{path}")
}

/// Percent-encodes characters that a URL must not contain, and removes the fragment.
fn percent_encode(path: &str) -> String {
    let path = path.split_once('#').map_or(path, |(path, _)| path);
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String never fails.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_urls_from_action_and_pod_address() {
        let cases = [
            ("", "10.0.0.1", "", "", "http://10.0.0.1:80/"),
            ("HTTPS", "10.0.0.1", "", "/a?b=c", "https://10.0.0.1:80/a?b=c"),
            ("HTTP", "fd00::1", "", "healthz", "http://[fd00::1]:80/healthz"),
            (
                "HTTP",
                "10.0.0.1",
                "web.example",
                "/a b",
                "http://web.example:80/a%20b",
            ),
            ("HTTP", "10.0.0.1", "", "/a#b", "http://10.0.0.1:80/a"),
        ];
        for (scheme, pod, host, path, expected) in cases {
            let action = HTTPGetAction {
                scheme: Some(scheme.to_owned()),
                host: Some(host.to_owned()),
                path: Some(path.to_owned()),
                ..HTTPGetAction::default()
            };
            assert_eq!(format_url(&action, pod, 80).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn resolves_relative_and_absolute_redirects() {
        let from: Uri = "http://a:80/b/c?d".parse().unwrap();
        let cases = [
            ("/x", "http://a:80/x", false),
            ("x", "http://a:80/b/x", false),
            ("?y", "http://a:80/b/c?y", false),
            ("//e/f", "http://e/f", true),
            ("https://a:81/", "https://a:81/", true),
        ];
        for (location, expected, is_absolute) in cases {
            let target = resolve_redirect(&from, location).unwrap();
            assert_eq!(
                (&*target.uri.to_string(), target.is_absolute),
                (expected, is_absolute)
            );
        }
    }
}
