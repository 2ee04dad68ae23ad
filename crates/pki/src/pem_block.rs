//! PEM: bytes as text between `BEGIN` and `END` lines.

use rustls_pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer, pem::PemObject};

use crate::{ParseError, PemError, PublicKey};

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemBlock {
    /// The label, such as `CERTIFICATE`.
    pub label: String,
    /// Whether the block has headers such as `Name: value`.
    pub has_headers: bool,
    /// The decoded bytes.
    pub bytes: Vec<u8>,
}

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
const CERTIFICATE: &str = "CERTIFICATE";

/// The blocks of a text. As in Go, text outside blocks is skipped, and a nested begin line starts a new block.
pub fn pem_blocks(text: &[u8]) -> Vec<PemBlock> {
    let text = String::from_utf8_lossy(text);
    let mut blocks = Vec::new();
    let mut begin: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let after = at + line.len();
        let bare = line.trim_end();
        if let Some(label) = between(bare, BEGIN) {
            begin = Some((label, at));
        } else if bare.starts_with(END)
            && let Some((label, from)) = begin.take()
            && between(bare, END) == Some(label)
        {
            blocks.extend(read_block(&text[from..after]));
        }
        at = after;
    }
    blocks
}

/// Whether a text has something that looks like a block, rather than being the name of a file.
pub fn is_pem(text: &str) -> bool {
    text.contains(BEGIN)
}

/// The certificates of a text. A text without any, or with a damaged one, is an error.
pub fn read_certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let read = find_certificates(text);
    let text = String::from_utf8_lossy(text);
    let begun = text
        .lines()
        .filter(|line| between(line.trim_end(), BEGIN) == Some(CERTIFICATE));
    if begun.count() != read.len() {
        return Err(PemError::Damaged(CERTIFICATE.to_owned()));
    }
    if read.is_empty() {
        return Err(PemError::Missing(CERTIFICATE));
    }
    Ok(read)
}

/// The certificates of a text that other programs wrote: those that can be read, perhaps none.
pub fn find_certificates(text: &[u8]) -> Vec<CertificateDer<'static>> {
    let blocks = pem_blocks(text).into_iter();
    let certificates = blocks.filter(|block| block.label == CERTIFICATE && !block.has_headers);
    certificates
        .map(|block| CertificateDer::from(block.bytes))
        .collect()
}

/// The first private key of a text.
pub fn read_private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        rustls_pki_types::pem::Error::NoItemsFound => PemError::Missing("PRIVATE KEY"),
        error => PemError::Damaged(error.to_string()),
    })
}

/// The public keys of a text, perhaps none. A damaged one is an error.
pub fn read_public_keys(text: &[u8]) -> Result<Vec<PublicKey>, ParseError> {
    let keys = SubjectPublicKeyInfoDer::pem_slice_iter(text);
    keys.map(|key| {
        let key = key.map_err(|_| ParseError::Field("a damaged PEM block"))?;
        PublicKey::from_info(&key)
    })
    .collect()
}

/// A certificate as text.
pub fn certificate_to_pem(der: &[u8]) -> String {
    to_pem(CERTIFICATE, der)
}

pub(crate) fn to_pem(label: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, der), config)
}

fn read_block(text: &str) -> Option<PemBlock> {
    let block = pem::parse(text).ok()?;
    Some(PemBlock {
        label: block.tag().to_owned(),
        has_headers: block.headers().iter().next().is_some(),
        bytes: block.into_contents(),
    })
}

fn between<'l>(line: &'l str, begin: &str) -> Option<&'l str> {
    line.strip_prefix(begin)?.strip_suffix(DASHES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stand_in_any_text() {
        let text = "x\n-----BEGIN A-----\nLost\n-----BEGIN A-----\r\nK: v\r\n\r\nYWJj\r\nZGVm\r\n-----END A-----\ny\n\
                    -----BEGIN B-----\nYQ==\n-----END B-----";
        let block = |label: &str, has_headers, bytes: &[u8]| PemBlock {
            label: label.to_owned(),
            has_headers,
            bytes: bytes.to_vec(),
        };
        assert_eq!(
            pem_blocks(text.as_bytes()),
            [block("A", true, b"abcdef"), block("B", false, b"a")]
        );
    }

    #[test]
    fn what_does_not_end_as_it_began_is_no_block() {
        for bad in [
            "-----BEGIN A-----\nYWJj\n-----END B-----",
            "-----BEGIN A-----\nYWJj",
            "-----BEGIN A-----\nY*Jj\n-----END A-----",
            "x-----BEGIN A-----\nYWJj\n-----END A-----",
        ] {
            assert_eq!(pem_blocks(bad.as_bytes()), []);
        }
    }

    #[test]
    fn a_damaged_certificate_is_an_error_where_all_are_needed() {
        let good = certificate_to_pem(b"abc");
        let bad = good.replace("YWJj", "Y*Jj");
        assert_eq!(read_certificates(good.as_bytes()).unwrap().len(), 1);
        assert_eq!(read_certificates(b"x"), Err(PemError::Missing("CERTIFICATE")));
        let both = format!("{good}{bad}");
        assert!(matches!(
            read_certificates(both.as_bytes()),
            Err(PemError::Damaged(_))
        ));
        assert_eq!(find_certificates(both.as_bytes()).len(), 1);
        // Without an end.
        let cut = good.split_at(40).0;
        assert!(matches!(
            read_certificates(cut.as_bytes()),
            Err(PemError::Damaged(_))
        ));
    }

    #[test]
    fn a_certificate_has_lines_of_64_letters() {
        let text = certificate_to_pem(&[7; 60]);
        let lines: Vec<_> = text.lines().map(str::len).collect();
        assert_eq!(lines, [27, 64, 16, 25]);
        assert!(text.ends_with("-----END CERTIFICATE-----\n"));
        assert_eq!(pem_blocks(text.as_bytes())[0].bytes, [7; 60]);
    }
}
