//! Standard base64 with padding.
//!
//! Reading is as lenient and as strict as Go's standard decoder: line breaks are skipped, padding is wanted,
//! and an error names the byte of the input at which the reader gave up.

use thiserror::Error;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text is not base64.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("illegal base64 data at input byte {0}")]
pub struct Base64Error(pub usize);

/// Writes bytes as text.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let joined = (0..3).fold(0u32, |sum, i| {
            sum << 8 | u32::from(group.get(i).copied().unwrap_or(0))
        });
        for position in 0..4 {
            if position <= group.len() {
                let digit = joined >> (18 - 6 * position) & 63;
                text.push(char::from(ALPHABET[digit as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// Bytes as text that can stand in a URL: no padding, and `-` and `_` for `+` and `/`.
pub fn encode_url(bytes: &[u8]) -> String {
    encode(bytes)
        .trim_end_matches('=')
        .replace('+', "-")
        .replace('/', "_")
}

/// The bytes of a text that [`encode_url`] wrote.
pub fn decode_url(text: &str) -> Result<Vec<u8>, Base64Error> {
    let mut padded = text.replace('-', "+").replace('_', "/");
    while !padded.len().is_multiple_of(4) {
        padded.push('=');
    }
    decode(&padded)
}

/// Reads text.
pub fn decode(text: &str) -> Result<Vec<u8>, Base64Error> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut input = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    let mut joined = 0u32;
    let mut digits = 0usize;
    while let Some((at, byte)) = input.next() {
        if let Some(digit) = value(byte) {
            joined = joined << 6 | digit;
            digits += 1;
            if digits == 4 {
                bytes.extend_from_slice(&joined.to_be_bytes()[1..]);
                (joined, digits) = (0, 0);
            }
            continue;
        }
        if byte != b'=' || digits < 2 {
            return Err(Base64Error(at));
        }
        if digits == 2 {
            match input.next() {
                Some((_, b'=')) => {}
                Some((at, _)) => return Err(Base64Error(at)),
                None => return Err(Base64Error(text.len())),
            }
        }
        if let Some((at, _)) = input.next() {
            return Err(Base64Error(at));
        }
        let shifted = joined << (6 * (4 - digits));
        bytes.extend_from_slice(&shifted.to_be_bytes()[1..digits]);
        return Ok(bytes);
    }
    // The input ended within a group: the error is where the group began, less the digits already read.
    if digits == 0 {
        Ok(bytes)
    } else {
        Err(Base64Error(text.len() - digits))
    }
}

fn value(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_texts_are_written() {
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, text) in pairs {
            assert_eq!(encode(plain.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), plain.as_bytes());
        }
    }

    #[test]
    fn line_breaks_are_skipped() {
        assert_eq!(decode("Zm9v\r\nYmFy\n").unwrap(), b"foobar");
    }

    #[test]
    fn an_error_names_the_byte() {
        assert_eq!(decode("%%%"), Err(Base64Error(0)));
        assert_eq!(decode("Zm9v%"), Err(Base64Error(4)));
        assert_eq!(decode("Zg=x"), Err(Base64Error(3)));
        assert_eq!(decode("Zg==Zg=="), Err(Base64Error(4)));
        assert_eq!(decode("Zm9"), Err(Base64Error(0)));
        assert_eq!(decode("Zm9vZg"), Err(Base64Error(4)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }
    }
}
