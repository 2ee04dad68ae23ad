//! Parser of URLs that accepts what Go's `net/url` accepts and fails with its messages: they are part of error texts on the
//! wire. It follows `url.Parse` and `url.ParseRequestURI` of the Go standard library.
// upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go ValidateWebhookURL; a caller whose errors carry these messages

use crate::go;

/// The parts of a URL that validation uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Url<'u> {
    /// In lower case; empty if there is none.
    pub(crate) scheme: String,
    /// The userinfo before an `@`; `None` if there is no `@`.
    pub(crate) user: Option<&'u str>,
    /// Host and port.
    pub(crate) host: &'u str,
    /// The query after `?`.
    pub(crate) query: &'u str,
    /// The fragment after `#`.
    pub(crate) fragment: &'u str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlForm {
    /// As `url.Parse`: an absolute or relative URL, with a fragment.
    Reference,
    /// As `url.ParseRequestURI`: an absolute URL or an absolute path.
    Request,
}

/// The part of a URL, which decides the escapes that it may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlPart {
    Host,
    Other,
}

/// Why a text is not a URL, in Go's words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("parse {}: {reason}", go::quote(.text))]
pub(crate) struct UrlError {
    text: String,
    #[source]
    reason: UrlErrorReason,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum UrlErrorReason {
    #[error("net/url: invalid control character in URL")]
    ControlCharacter,
    #[error("empty url")]
    Empty,
    #[error("invalid URI for request")]
    Relative,
    #[error("first path segment in URL cannot contain colon")]
    ColonInFirstSegment,
    #[error("missing protocol scheme")]
    MissingScheme,
    #[error("missing ']' in host")]
    MissingBracket,
    #[error("invalid port {} after host", go::quote(.0))]
    Port(String),
    #[error("net/url: invalid userinfo")]
    Userinfo,
    #[error("invalid URL escape {}", go::quote(.0))]
    Escape(String),
    #[error("invalid character {} in host name", go::quote(.0.encode_utf8(&mut [0; 4])))]
    HostCharacter(char),
}

// --- Url ---

impl<'u> Url<'u> {
    /// Parses a URL.
    pub(crate) fn parse(text: &'u str, form: UrlForm) -> Result<Self, UrlError> {
        let (body, fragment) = match form {
            UrlForm::Reference => text.split_once('#').unwrap_or((text, "")),
            UrlForm::Request => (text, ""),
        };
        let wrap = |text: &str, reason| UrlError {
            text: text.to_owned(),
            reason,
        };
        let mut url = Self::parse_parts(body, form).map_err(|reason| wrap(body, reason))?;
        validate_escapes(fragment, UrlPart::Other).map_err(|reason| wrap(text, reason))?;
        url.fragment = fragment;
        Ok(url)
    }

    fn parse_parts(text: &'u str, form: UrlForm) -> Result<Self, UrlErrorReason> {
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err(UrlErrorReason::ControlCharacter);
        }
        if text.is_empty() && form == UrlForm::Request {
            return Err(UrlErrorReason::Empty);
        }
        let (scheme, rest) = split_scheme(text)?;
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
            if form == UrlForm::Request {
                return Err(UrlErrorReason::Relative);
            }
            if rest
                .split('/')
                .next()
                .is_some_and(|segment| segment.contains(':'))
            {
                return Err(UrlErrorReason::ColonInFirstSegment);
            }
        }
        let may_have_host = !scheme.is_empty() || form == UrlForm::Reference && !rest.starts_with("///");
        let mut path = rest;
        if let Some(rest) = rest.strip_prefix("//").filter(|_| may_have_host) {
            let end = rest.find('/').unwrap_or(rest.len());
            let authority = &rest[..end];
            path = &rest[end..];
            let (user, host) = match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, authority),
            };
            validate_host(host)?;
            if let Some(user) = user {
                validate_userinfo(user)?;
            }
            url.user = user;
            url.host = host;
        }
        validate_escapes(path, UrlPart::Other)?;
        Ok(url)
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), UrlErrorReason> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err(UrlErrorReason::MissingScheme),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn validate_host(host: &str) -> Result<(), UrlErrorReason> {
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or(UrlErrorReason::MissingBracket)?;
        &host[end + 1..]
    } else {
        host.rfind(':').map_or("", |start| &host[start..])
    };
    let digits = port.strip_prefix(':');
    let valid = port.is_empty() || digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if !valid {
        return Err(UrlErrorReason::Port(port.to_owned()));
    }
    validate_escapes(host, UrlPart::Host)
}

fn validate_userinfo(user: &str) -> Result<(), UrlErrorReason> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(fine) {
        return Err(UrlErrorReason::Userinfo);
    }
    validate_escapes(user, UrlPart::Other)
}

/// Validates the percent escapes of a part, and the characters of a host.
fn validate_escapes(text: &str, part: UrlPart) -> Result<(), UrlErrorReason> {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        if c == '%' {
            let digits = rest.as_bytes().get(1..3);
            let hex = digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            // A host escapes only non-ASCII bytes and the percent sign.
            let plain = digits.is_some_and(|digits| digits[0].is_ascii_digit() && digits[0] < b'8');
            if !hex || part == UrlPart::Host && plain && !rest.starts_with("%25") {
                let escape: String = rest.chars().take(3).collect();
                return Err(UrlErrorReason::Escape(escape));
            }
            length = 3;
        } else if part == UrlPart::Host
            && c.is_ascii()
            && !c.is_ascii_alphanumeric()
            && !"-_.~!$&'()*+,;=:[]<>\"".contains(c)
        {
            return Err(UrlErrorReason::HostCharacter(c));
        }
        rest = &rest[length..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_error(text: &str) -> String {
        Url::parse(text, UrlForm::Reference).unwrap_err().to_string()
    }

    proptest::proptest! {
        #[test]
        fn parses_any_text_without_panic(text in "[a-c:/?#@%0-9\\[\\] \u{e9}]{0,16}") {
            let _ = Url::parse(&text, UrlForm::Reference);
            let _ = Url::parse(&text, UrlForm::Request);
        }
    }

    #[test]
    fn splits_a_url_into_its_parts() {
        let url = Url::parse("HTTPS://me:x@host:8443/a/b?q=1#f", UrlForm::Reference).unwrap();
        assert_eq!(
            (url.scheme.as_str(), url.host, url.user),
            ("https", "host:8443", Some("me:x"))
        );
        assert_eq!((url.query, url.fragment), ("q=1", "f"));
        assert_eq!(Url::parse("mailto:x", UrlForm::Reference).unwrap().host, "");
        assert_eq!(
            Url::parse("https://[::1]:80/", UrlForm::Request).unwrap().host,
            "[::1]:80"
        );
        assert!(Url::parse("host/path", UrlForm::Request).is_err());
    }

    #[test]
    fn fails_with_the_messages_of_go() {
        assert_eq!(parse_error(":x"), "parse \":x\": missing protocol scheme");
        assert_eq!(
            parse_error("a b:80/x"),
            "parse \"a b:80/x\": first path segment in URL cannot contain colon"
        );
        assert_eq!(
            parse_error("https://h:x/"),
            "parse \"https://h:x/\": invalid port \":x\" after host"
        );
        assert_eq!(
            parse_error("https://a b/"),
            "parse \"https://a b/\": invalid character \" \" in host name"
        );
        assert_eq!(
            parse_error("https://h/%zz"),
            "parse \"https://h/%zz\": invalid URL escape \"%zz\""
        );
        assert_eq!(
            parse_error("a\tb"),
            "parse \"a\\tb\": net/url: invalid control character in URL"
        );
        assert_eq!(
            parse_error("https://[::1"),
            "parse \"https://[::1\": missing ']' in host"
        );
    }
}
