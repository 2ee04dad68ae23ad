//! URLs, read as strictly and told as wrong as the Go library does it: its words show on the wire.

use crate::go;

/// The parts of a URL that rules ask for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Url<'u> {
    /// Lower case; empty if there is none.
    pub(crate) scheme: String,
    /// What stands before an `@`; `None` if there is no `@`.
    pub(crate) user: Option<&'u str>,
    /// Host and port.
    pub(crate) host: &'u str,
    /// What follows the `?`.
    pub(crate) query: &'u str,
    /// What follows the `#`.
    pub(crate) fragment: &'u str,
}

/// What a text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A URL, or a part of one, with a fragment.
    Reference,
    /// A whole URL, or a path from the root.
    Request,
}

/// Where escapes may stand for what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Host,
    Elsewhere,
}

// --- Url ---

impl<'u> Url<'u> {
    /// Reads a text; the error is the text that tells what is wrong.
    pub(crate) fn parse(text: &'u str, form: Form) -> Result<Self, String> {
        let (body, fragment) = match form {
            Form::Reference => text.split_once('#').unwrap_or((text, "")),
            Form::Request => (text, ""),
        };
        let told = |text: &str, fault: String| format!("parse {}: {fault}", go::quote(text));
        let mut url = Self::parts(body, form).map_err(|fault| told(body, fault))?;
        escapes(fragment, Place::Elsewhere).map_err(|fault| told(text, fault))?;
        url.fragment = fragment;
        Ok(url)
    }

    fn parts(text: &'u str, form: Form) -> Result<Self, String> {
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && form == Form::Request {
            return Err("empty url".to_owned());
        }
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Url {
            scheme: scheme.to_ascii_lowercase(),
            query,
            ..Url::default()
        };
        if !rest.starts_with('/') && rest != "*" {
            if !scheme.is_empty() {
                return Ok(url);
            }
            if form == Form::Request {
                return Err("invalid URI for request".to_owned());
            }
            if rest
                .split('/')
                .next()
                .is_some_and(|segment| segment.contains(':'))
            {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let may_have_host = !scheme.is_empty() || form == Form::Reference && !rest.starts_with("///");
        let mut path = rest;
        if let Some(rest) = rest.strip_prefix("//").filter(|_| may_have_host) {
            let end = rest.find('/').unwrap_or(rest.len());
            let authority = &rest[..end];
            path = &rest[end..];
            let (user, host) = match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, authority),
            };
            judge_host(host)?;
            if let Some(user) = user {
                judge_user(user)?;
            }
            (url.user, url.host) = (user, host);
        }
        escapes(path, Place::Elsewhere)?;
        Ok(url)
    }
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn judge_host(host: &str) -> Result<(), String> {
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        host.rfind(':').map_or("", |start| &host[start..])
    };
    let digits = port.strip_prefix(':');
    let valid = port.is_empty() || digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if !valid {
        return Err(format!("invalid port {} after host", go::quote(port)));
    }
    escapes(host, Place::Host)
}

fn judge_user(user: &str) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(fine) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    escapes(user, Place::Elsewhere)
}

/// What is wrong with the escapes of a part, and with the characters of a host.
fn escapes(text: &str, place: Place) -> Result<(), String> {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        if c == '%' {
            let digits = rest.as_bytes().get(1..3);
            let hex = digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            // A host escapes only what is no ASCII, and the percent sign.
            let plain = digits.is_some_and(|digits| digits[0].is_ascii_digit() && digits[0] < b'8');
            if !hex || place == Place::Host && plain && !rest.starts_with("%25") {
                let shown: String = rest.chars().take(3).collect();
                return Err(format!("invalid URL escape {}", go::quote(&shown)));
            }
            length = 3;
        } else if place == Place::Host
            && c.is_ascii()
            && !c.is_ascii_alphanumeric()
            && !"-_.~!$&'()*+,;=:[]<>\"".contains(c)
        {
            return Err(format!(
                "invalid character {} in host name",
                go::quote(c.encode_utf8(&mut [0; 4]))
            ));
        }
        rest = &rest[length..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        Url::parse(text, Form::Reference).unwrap_err()
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "[a-c:/?#@%0-9\\[\\] \u{e9}]{0,16}") {
            let _ = Url::parse(&text, Form::Reference);
            let _ = Url::parse(&text, Form::Request);
        }
    }

    #[test]
    fn the_parts_are_found() {
        let url = Url::parse("HTTPS://me:x@host:8443/a/b?q=1#f", Form::Reference).unwrap();
        assert_eq!(
            (url.scheme.as_str(), url.host, url.user),
            ("https", "host:8443", Some("me:x"))
        );
        assert_eq!((url.query, url.fragment), ("q=1", "f"));
        assert_eq!(Url::parse("mailto:x", Form::Reference).unwrap().host, "");
        assert_eq!(
            Url::parse("https://[::1]:80/", Form::Request).unwrap().host,
            "[::1]:80"
        );
        assert!(Url::parse("host/path", Form::Request).is_err());
    }

    #[test]
    fn what_is_wrong_is_told_in_the_words_clients_know() {
        assert_eq!(fault(":x"), "parse \":x\": missing protocol scheme");
        assert_eq!(
            fault("a b:80/x"),
            "parse \"a b:80/x\": first path segment in URL cannot contain colon"
        );
        assert_eq!(
            fault("https://h:x/"),
            "parse \"https://h:x/\": invalid port \":x\" after host"
        );
        assert_eq!(
            fault("https://a b/"),
            "parse \"https://a b/\": invalid character \" \" in host name"
        );
        assert_eq!(
            fault("https://h/%zz"),
            "parse \"https://h/%zz\": invalid URL escape \"%zz\""
        );
        assert_eq!(
            fault("a\tb"),
            "parse \"a\\tb\": net/url: invalid control character in URL"
        );
        assert_eq!(
            fault("https://[::1"),
            "parse \"https://[::1\": missing ']' in host"
        );
    }
}
