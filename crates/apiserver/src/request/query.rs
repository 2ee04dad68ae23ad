//! Parses the query of a URL.

use std::num::ParseIntError;

use k3_api::{go, status::Status, time::Time};

/// The parameters of a query, decoded, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

// --- Query ---

impl Query {
    /// Reads a query. What cannot be decoded is left out, as Go does.
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'));
        Query(
            pairs
                .filter_map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Some((decode(name, PlusSign::Space)?, decode(value, PlusSign::Space)?))
                })
                .collect(),
        )
    }

    /// The first value of a parameter; empty if it is not there.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// Whether a parameter is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// All values of a parameter.
    pub(crate) fn all<'q, 'n>(&'q self, name: &'n str) -> impl Iterator<Item = &'q str> + use<'q, 'n> {
        self.0
            .iter()
            .filter(move |(parameter, _)| parameter == name)
            .map(|(_, value)| value.as_str())
    }

    /// A parameter that is true or false: anything but "0" and "false" is true.
    // upstream: staging/src/k8s.io/apimachinery/pkg/runtime/conversion.go Convert_Slice_string_To_bool
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        let value = self.all(name).next()?;
        Some(!(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    /// A parameter that is a whole number.
    // upstream: staging/src/k8s.io/apimachinery/pkg/runtime/conversion.go Convert_Slice_string_To_int64
    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(value) = self.all(name).next() else {
            return Ok(None);
        };
        let parsed = value.parse().map(Some);
        parsed.map_err(|error| Status::bad_request(unread("ParseInt", value, &error)))
    }

    /// A parameter that is a list of ports, or several of them.
    pub(crate) fn ports(&self, name: &str) -> Result<Vec<u16>, Status> {
        let ports = self.all(name).flat_map(|list| list.split(','));
        let read = |port: &str| {
            port.parse().map_err(|error| {
                let why = unread("ParseUint", port, &error);
                Status::bad_request(format!("cannot convert to []int32: {why}"))
            })
        };
        ports.map(read).collect()
    }

    /// A parameter that is a time; old clients write "null" for none.
    // upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/conversion.go Convert_Slice_string_To_v1_Time
    pub(crate) fn time(&self, name: &str) -> Result<Option<Time>, Status> {
        match self.text(name) {
            "" | "null" => Ok(None),
            text => Time::parse(text)
                .map(Some)
                .map_err(|error| Status::bad_request(error.to_string())),
        }
    }
}

/// Go's error text for an invalid number.
fn unread(function: &str, value: &str, error: &ParseIntError) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let why = match error.kind() {
        PosOverflow | NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.{function}: parsing {}: {why}", go::quote(value))
}

/// Writes a query, sorted by name, as Go does.
pub(crate) fn encode(pairs: &mut [(&str, String)]) -> String {
    pairs.sort_by_key(|(name, _)| *name);
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    text.push(char::from(byte));
                }
                b' ' => text.push('+'),
                other => {
                    text.push('%');
                    for digit in [other >> 4, other & 15] {
                        let digit = char::from_digit(u32::from(digit), 16).unwrap_or_default();
                        text.push(digit.to_ascii_uppercase());
                    }
                }
            }
        }
    }
    text
}

/// What a plus sign stands for in an encoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlusSign {
    /// A space: in queries.
    Space,
    /// Itself: in paths.
    Literal,
}

/// Decodes %XX, and + as a space where that is what it stands for. `None` if it is malformed.
pub(crate) fn decode(text: &str, plus: PlusSign) -> Option<String> {
    if !text.contains(['%', '+']) {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'%' => {
                let (digits, tail) = rest.split_at_checked(2)?;
                rest = tail;
                let digit = |byte: u8| {
                    char::from(byte)
                        .to_digit(16)
                        .and_then(|digit| u8::try_from(digit).ok())
                };
                bytes.push(digit(digits[0])? * 16 + digit(digits[1])?);
            }
            b'+' if plus == PlusSign::Space => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_round_trips() {
        let mut pairs = [("command", "a b/&=%+\u{e9}".to_owned()), ("b", String::new())];
        let text = encode(&mut pairs);
        assert_eq!(text, "b=&command=a+b%2F%26%3D%25%2B%C3%A9");
        assert_eq!(Query::parse(&text).text("command"), "a b/&=%+\u{e9}");
    }

    #[test]
    fn decodes_parameters() {
        let query = Query::parse("a=1&b=x%20y+z&c&a=2&bad=%zz");
        assert_eq!(
            (query.text("a"), query.text("b"), query.text("bad")),
            ("1", "x y z", "")
        );
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert!(query.has("c") && !query.has("d"));
    }

    #[test]
    fn parses_numbers_and_flags_like_go() {
        let query = Query::parse("n=12&m=abc&t=true&u=0&v=False&w");
        assert_eq!(query.int("n").unwrap(), Some(12));
        assert_eq!(
            query.int("m").unwrap_err().message,
            "strconv.ParseInt: parsing \"abc\": invalid syntax"
        );
        assert_eq!(
            ["t", "u", "v", "w", "x"].map(|name| query.flag(name)),
            [Some(true), Some(false), Some(false), Some(true), None]
        );
    }

    #[test]
    fn parses_ports_and_times_like_go() {
        let query = Query::parse("p=1,2&p=3&q=70000&t=1970-01-01T00:00:01Z&u=null&v=soon");
        assert_eq!(query.ports("p").unwrap(), [1, 2, 3]);
        assert_eq!(
            query.ports("q").unwrap_err().message,
            "cannot convert to []int32: strconv.ParseUint: parsing \"70000\": value out of range"
        );
        assert_eq!(query.time("t").unwrap(), Some(Time::from_unix(1, 0)));
        assert_eq!(query.time("u").unwrap(), None);
        assert_eq!(
            query.time("v").unwrap_err().message,
            "parsing time \"soon\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"soon\" as \"2006\""
        );
    }
}
