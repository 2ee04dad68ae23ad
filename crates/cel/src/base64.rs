//! Base64 as Go's standard library reads and writes it.

use ::base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Go ignores the bits of the last digit that stand for no byte.
const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, CONFIG);
const URL_SAFE_NO_PAD: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    CONFIG
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// The text is not base64. The number is the offset in the text that Go reports.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal base64 data at input byte {0}")]
pub struct Base64Error(pub usize);

/// Encodes bytes with padding (Go's `base64.StdEncoding`).
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Encodes bytes with the alphabet of URLs and without padding (Go's `base64.RawURLEncoding`).
pub fn encode_url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes text with padding (Go's `base64.StdEncoding`). Line breaks are skipped.
pub fn decode(text: &str) -> Result<Vec<u8>, Base64Error> {
    decode_with(&STANDARD, text).ok_or_else(|| Base64Error(error_offset(text, [b'+', b'/'])))
}

/// Decodes text with the alphabet of URLs and with padding (Go's `base64.URLEncoding`). Line breaks are skipped.
pub(crate) fn decode_url_padded(text: &str) -> Result<Vec<u8>, Base64Error> {
    decode_with(&URL_SAFE, text).ok_or_else(|| Base64Error(error_offset(text, [b'-', b'_'])))
}

/// Whether text has the format `byte`: base64 with padding, at least one byte of it, and no line breaks.
// upstream: vendor/k8s.io/kube-openapi/pkg/internal/third_party/govalidator/validator.go IsBase64
pub fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && padding <= 2 && digits.bytes().all(is_digit)
}

/// Decodes text with the alphabet of URLs and without padding (Go's `base64.RawURLEncoding`). Line breaks are skipped.
pub fn decode_url(text: &str) -> Result<Vec<u8>, Base64Error> {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    decode_with(&URL_SAFE_NO_PAD, text).ok_or_else(|| {
        let illegal = text
            .bytes()
            .position(|byte| !is_digit(byte) && !is_line_break(byte));
        // Without an illegal byte the last group has one digit; Go reports that digit.
        Base64Error(illegal.unwrap_or_else(|| text.len() - 1))
    })
}

fn decode_with(engine: &GeneralPurpose, text: &str) -> Option<Vec<u8>> {
    if text.bytes().any(is_line_break) {
        let digits: Vec<u8> = text.bytes().filter(|byte| !is_line_break(*byte)).collect();
        engine.decode(digits).ok()
    } else {
        engine.decode(text).ok()
    }
}

fn is_line_break(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// Returns the offset that Go reports for text that is not base64 with padding. The `base64` crate reports other offsets for padding
/// and for text that ends early.
/// `last` are the two digits in which the alphabets differ.
fn error_offset(text: &str, last: [u8; 2]) -> usize {
    let mut input = text.bytes().enumerate().filter(|(_, byte)| !is_line_break(*byte));
    let mut digits = 0;
    while let Some((offset, byte)) = input.next() {
        if byte.is_ascii_alphanumeric() || last.contains(&byte) {
            digits = (digits + 1) % 4;
            continue;
        }
        if byte != b'=' || digits < 2 {
            return offset;
        }
        if digits == 2 {
            match input.next() {
                Some((_, b'=')) => {}
                Some((offset, _)) => return offset,
                None => return text.len(),
            }
        }
        return input.next().map_or(text.len(), |(offset, _)| offset);
    }
    // The text ends within a group of four digits: Go reports where the group begins.
    text.len() - digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encodes_and_decodes() {
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
    fn skips_line_breaks() {
        assert_eq!(decode("Zm9v\r\nYmFy\n").unwrap(), b"foobar");
    }

    #[test]
    fn reports_the_offset_of_the_error() {
        assert_eq!(decode("%%%"), Err(Base64Error(0)));
        assert_eq!(decode("Zm9v%"), Err(Base64Error(4)));
        assert_eq!(decode("Zg=x"), Err(Base64Error(3)));
        assert_eq!(decode("Zg==Zg=="), Err(Base64Error(4)));
        assert_eq!(decode("Zm9"), Err(Base64Error(0)));
        assert_eq!(decode("Zm9vZg"), Err(Base64Error(4)));
        assert_eq!(decode("Zg="), Err(Base64Error(3)));
        assert_eq!(decode("Zg=\n"), Err(Base64Error(4)));
        assert_eq!(decode("Z\nm9v=g"), Err(Base64Error(5)));
        assert_eq!(decode("Zm9v\n-"), Err(Base64Error(5)));
    }

    #[test]
    fn ignores_trailing_bits() {
        assert_eq!(decode("Zh==").unwrap(), b"f");
        assert_eq!(decode_url("Zh").unwrap(), b"f");
    }

    #[test]
    fn decodes_the_url_alphabet_without_padding() {
        assert_eq!(encode_url(&[0xfb, 0xff]), "-_8");
        assert_eq!(decode_url("-_8").unwrap(), [0xfb, 0xff]);
        assert_eq!(decode_url("-_\n8\n").unwrap(), [0xfb, 0xff]);
        for (bad, offset) in [("-_8=", 3), ("-/8", 1), ("Z", 0), ("Zm9vZ", 4), ("Z\n%", 2)] {
            assert_eq!(decode_url(bad), Err(Base64Error(offset)), "{bad}");
        }
    }

    #[test]
    fn decodes_the_url_alphabet_with_padding() {
        assert_eq!(decode_url_padded("-_8=").unwrap(), [0xfb, 0xff]);
        assert_eq!(decode_url_padded("Zh==").unwrap(), b"f");
        for (bad, offset) in [("+/8=", 0), ("Zm9v/w==", 4), ("-_8", 0), ("Zm9v-_8", 4)] {
            assert_eq!(decode_url_padded(bad), Err(Base64Error(offset)), "{bad}");
        }
    }

    #[test]
    fn the_format_byte_is_padded_and_not_empty() {
        for text in ["YQ==", "Yh==", "YWI=", "YWJj", "+/+/"] {
            assert!(is_base64(text), "{text}");
        }
        for text in [
            "", "=", "====", "Y===", "YQ", "YQ=", "YQ=a", "YW\nJj", "-_8=", "a b=",
        ] {
            assert!(!is_base64(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn decodes_what_it_encodes(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }
    }
}
