//! URLs, as Go reads them in requests.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/urls.go URLs, isURL, stringToUrl

use std::fmt;

use super::{Implementation, no_overload};
use crate::{
    error::EvalError,
    value::{Entries, OpaqueValue, Result, Value},
};

/// Why a text is not a URL, in the words of Go's `net/url`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("net/url: invalid control character in URL")]
    ControlCharacter,
    #[error("empty url")]
    Empty,
    #[error("missing protocol scheme")]
    MissingScheme,
    #[error("invalid URI for request")]
    Relative,
    #[error("net/url: invalid userinfo")]
    InvalidUserinfo,
    #[error("missing ']' in host")]
    MissingBracket,
    #[error("invalid port {0:?} after host")]
    InvalidPort(String),
    #[error("invalid character {0:?} in host name")]
    InvalidHostCharacter(String),
    #[error("invalid URL escape {0:?}")]
    InvalidEscape(String),
}

/// A URL, cut into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    user: Option<String>,
    host: String,
    /// As it was written.
    path: String,
    query: Option<String>,
    text: String,
}

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "url" => |name, args| match args {
            [Value::String(text)] => match Url::parse(text) {
                Ok(url) => Ok(Value::Opaque(OpaqueValue::Url(std::sync::Arc::new(url)))),
                Err(why) => {
                    let message =
                        format!("URL parse error during conversion from string: parse {text:?}: {why}");
                    Err(EvalError::new(message))
                }
            },
            _ => no_overload(name, args),
        },
        "isURL" => |name, args| match args {
            [Value::String(text)] => Ok(Value::Bool(Url::parse(text).is_ok())),
            _ => no_overload(name, args),
        },
        "getScheme" | "getHost" | "getHostname" | "getPort" | "getEscapedPath" | "getQuery" => part,
        _ => return None,
    })
}

fn part<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::Opaque(OpaqueValue::Url(url))] = args else {
        return no_overload(name, args);
    };
    Ok(Value::text(match name {
        "getScheme" => url.scheme.as_str(),
        "getHost" => url.host.as_str(),
        "getHostname" => url.hostname(),
        "getPort" => url.port(),
        "getEscapedPath" => url.path.as_str(),
        _ => return url.query(),
    }))
}

impl Url {
    /// Reads an absolute URL or an absolute path.
    pub(crate) fn parse(text: &str) -> std::result::Result<Url, UrlError> {
        if text.chars().any(|c| c.is_ascii_control()) {
            return Err(UrlError::ControlCharacter);
        }
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        // A fragment is cut off when the URL is read as one; in a request it would be part of the path.
        let (rest, query) = match (&query, rest.split_once('#')) {
            (None, Some((rest, _))) => (rest, query),
            _ => (
                rest,
                query.map(|query| match query.split_once('#') {
                    Some((query, _)) => query.to_owned(),
                    None => query,
                }),
            ),
        };
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return Err(UrlError::Relative);
            }
            return Ok(Url {
                scheme,
                user: None,
                host: String::new(),
                path: String::new(),
                query,
                text: text.to_owned(),
            });
        }
        let mut user = None;
        let mut host = "";
        let mut path = rest;
        if !scheme.is_empty()
            && let Some(authority) = rest.strip_prefix("//")
        {
            let end = authority.find('/').unwrap_or(authority.len());
            path = &authority[end..];
            let mut authority = &authority[..end];
            if let Some((info, rest)) = authority.rsplit_once('@') {
                if !info
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c))
                {
                    return Err(UrlError::InvalidUserinfo);
                }
                user = Some(info.to_owned());
                authority = rest;
            }
            check_host(authority)?;
            host = authority;
        }
        check_escapes(path)?;
        Ok(Url {
            scheme,
            user,
            host: host.to_owned(),
            path: escaped(path),
            query,
            text: text.to_owned(),
        })
    }

    fn hostname(&self) -> &str {
        if let Some(rest) = self.host.strip_prefix('[') {
            return rest.split_once(']').map_or(rest, |(address, _)| address);
        }
        self.host.rsplit_once(':').map_or(&self.host, |(host, _)| host)
    }

    fn port(&self) -> &str {
        let after = self
            .host
            .rsplit_once(']')
            .map_or(self.host.as_str(), |(_, after)| after);
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    fn query<'a>(&self) -> Result<'a> {
        let mut lists: Vec<(String, Vec<Value<'a>>)> = Vec::new();
        // Without a query there are no pairs, as with an empty one.
        for pair in self.query.as_deref().unwrap_or("").split('&') {
            if pair.is_empty() || pair.contains(';') {
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(key), Some(value)) = (unescape(key), unescape(value)) else {
                continue;
            };
            let value = Value::text(value);
            match lists.iter_mut().find(|(name, _)| *name == key) {
                Some((_, values)) => values.push(value),
                None => lists.push((key, vec![value])),
            }
        }
        let mut entries = Entries::default();
        for (key, values) in lists {
            entries.insert(Value::text(key), Value::list(values))?;
        }
        Ok(entries.into())
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn scheme(text: &str) -> std::result::Result<(String, &str), UrlError> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err(UrlError::MissingScheme),
            ':' => return Ok((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn check_host(host: &str) -> std::result::Result<(), UrlError> {
    let port = if let Some(rest) = host.strip_prefix('[') {
        let Some((_, after)) = rest.split_once(']') else {
            return Err(UrlError::MissingBracket);
        };
        after
    } else {
        host.find(':').map_or("", |at| &host[at..])
    };
    let digits = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(digits) {
        return Err(UrlError::InvalidPort(port.to_owned()));
    }
    if let Some(c) = host
        .chars()
        .find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-._~!$&'()*+,;=:[]<>\"%".contains(*c))
    {
        return Err(UrlError::InvalidHostCharacter(c.to_string()));
    }
    check_escapes(host)
}

fn check_escapes(text: &str) -> std::result::Result<(), UrlError> {
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('%') {
        let hex = |ahead: usize| bytes.get(at + ahead).is_some_and(u8::is_ascii_hexdigit);
        if !hex(1) || !hex(2) {
            let end = (at + 3).min(text.len());
            let shown = text.get(at..end).unwrap_or("%");
            return Err(UrlError::InvalidEscape(shown.to_owned()));
        }
    }
    Ok(())
}

/// A path in which what must be is escaped.
fn escaped(path: &str) -> String {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*%[]".contains(&b);
    if path.bytes().all(fine) {
        return path.to_owned();
    }
    path.bytes()
        .map(|b| {
            if fine(b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

fn unescape(text: &str) -> Option<String> {
    check_escapes(text).ok()?;
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
