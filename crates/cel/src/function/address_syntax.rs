//! What Go reports for a text that is no IP address.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/ip.go IP; the messages are those of netip.ParseAddr

use std::fmt;

/// What is wrong with the text of an IP address, and the rest of the text from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressSyntaxError {
    message: &'static str,
    rest: Option<String>,
}

impl AddressSyntaxError {
    pub(super) const EMPTY_ZONE: Self = AddressSyntaxError::new("zone must be a non-empty string");

    const fn new(message: &'static str) -> Self {
        AddressSyntaxError { message, rest: None }
    }

    fn at(message: &'static str, rest: &str) -> Self {
        AddressSyntaxError {
            message,
            rest: Some(rest.to_owned()),
        }
    }

    /// A zone after something that is no IPv6 address.
    pub(super) fn unexpected_zone() -> Self {
        AddressSyntaxError::at("unexpected character", "%")
    }

    /// What is wrong with a text that is no address.
    pub(super) fn of(text: &str) -> Self {
        match text.find(['.', ':']) {
            None => AddressSyntaxError::new("unable to parse IP"),
            Some(at) if text.as_bytes()[at] == b':' => AddressSyntaxError::of_v6(text),
            Some(_) => AddressSyntaxError::of_v4(text),
        }
    }

    fn of_v4(text: &str) -> Self {
        let mut fields = 0;
        let mut digits = 0;
        let mut value = 0;
        for (at, c) in text.char_indices() {
            match c {
                '0'..='9' => {
                    if digits == 1 && value == 0 {
                        return AddressSyntaxError::new("IPv4 field has octet with leading zero");
                    }
                    value = value * 10 + (c as u32 - '0' as u32);
                    digits += 1;
                    if value > 255 {
                        return AddressSyntaxError::new("IPv4 field has value >255");
                    }
                }
                '.' => {
                    if digits == 0 || at == text.len() - 1 {
                        return AddressSyntaxError::at(
                            "IPv4 field must have at least one digit",
                            &text[at..],
                        );
                    }
                    if fields == 3 {
                        return AddressSyntaxError::new("IPv4 address too long");
                    }
                    fields += 1;
                    digits = 0;
                    value = 0;
                }
                _ => return AddressSyntaxError::at("unexpected character", &text[at..]),
            }
        }
        AddressSyntaxError::new("IPv4 address too short")
    }

    fn of_v6(text: &str) -> Self {
        let leading = text.starts_with("::");
        let mut gap = leading;
        let mut rest = if leading { &text[2..] } else { text };
        let mut groups = 0;
        while groups < 8 && !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
            let after = &rest[digits..];
            match after.chars().next() {
                _ if digits > 4 => {
                    return AddressSyntaxError::at("each group must have 4 or less digits", rest);
                }
                _ if digits == 0 => {
                    return AddressSyntaxError::at(
                        "each colon-separated field must have at least one digit",
                        rest,
                    );
                }
                Some('.') if !gap && groups != 6 => {
                    return AddressSyntaxError::at(
                        "embedded IPv4 address must replace the final 2 fields of the address",
                        rest,
                    );
                }
                Some('.') => return AddressSyntaxError::of(rest),
                Some(':') if after.len() == 1 => {
                    return AddressSyntaxError::at("colon must be followed by more characters", after);
                }
                None | Some(':') => {}
                Some(_) => return AddressSyntaxError::at("unexpected character, want colon", after),
            }
            groups += 1;
            rest = after.strip_prefix(':').unwrap_or(after);
            if let Some(more) = rest.strip_prefix(':') {
                if gap {
                    return AddressSyntaxError::at("multiple :: in address", rest);
                }
                gap = true;
                rest = more;
            }
        }
        match (rest.is_empty(), gap) {
            (false, _) => AddressSyntaxError::at("trailing garbage after address", rest),
            (true, false) => AddressSyntaxError::new("address string too short"),
            (true, true) => AddressSyntaxError::new("the :: must expand to at least one field of zeros"),
        }
    }
}

impl fmt::Display for AddressSyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)?;
        match &self.rest {
            Some(rest) => write!(f, " (at {rest:?})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for AddressSyntaxError {}
