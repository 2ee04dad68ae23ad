//! Addresses of pages, and where redirects lead.

use std::fmt::Write;

use http::Uri;
use k8s_openapi::api::core::v1::HTTPGetAction;

use crate::probes::port::joined;

/// Where a redirect leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) uri: Uri,
    /// Whether it names a host.
    pub(super) is_absolute: bool,
}

/// The address an action asks for.
pub(super) fn address(action: &HTTPGetAction, pod_address: &str, port: u16) -> Result<Uri, String> {
    let host = action.host.as_deref().filter(|host| !host.is_empty());
    let scheme = action.scheme.as_deref().filter(|scheme| !scheme.is_empty());
    let scheme = scheme.unwrap_or("http").to_lowercase();
    let authority = joined(host.unwrap_or(pod_address), port);
    let path = escaped(action.path.as_deref().unwrap_or_default());
    let url = format!("{scheme}://{authority}{}", rooted(&path));
    url.parse().map_err(|error| format!("{url}: {error}"))
}

/// Where a `Location` leads from a page.
pub(super) fn target(from: &Uri, location: &str) -> Option<Target> {
    let location = escaped(location);
    let is_absolute = location.starts_with("//") || location.contains("://");
    let scheme = from.scheme_str().unwrap_or("http");
    let authority = from.authority()?.as_str();
    let text = if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if is_absolute {
        location
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{}{location}", from.path())
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let uri: Uri = text.parse().ok()?;
    Some(Target { uri, is_absolute })
}

fn rooted(path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    format!("/{path}")
}

/// What pages may not be called is written in hex, and what stands for a place in the page is left out.
fn escaped(path: &str) -> String {
    let path = path.split_once('#').map_or(path, |(path, _)| path);
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_made_of_what_the_action_says_and_the_pod() {
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
            assert_eq!(address(&action, pod, 80).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn redirects_lead_to_where_browsers_would_go() {
        let from: Uri = "http://a:80/b/c?d".parse().unwrap();
        let cases = [
            ("/x", "http://a:80/x", false),
            ("x", "http://a:80/b/x", false),
            ("?y", "http://a:80/b/c?y", false),
            ("//e/f", "http://e/f", true),
            ("https://a:81/", "https://a:81/", true),
        ];
        for (location, expected, is_absolute) in cases {
            let target = target(&from, location).unwrap();
            assert_eq!(
                (&*target.uri.to_string(), target.is_absolute),
                (expected, is_absolute)
            );
        }
    }
}
