//! Tokens for joining a cluster.

use std::{fmt, str::FromStr};

use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};

const PREFIX: &str = "K3";
const SEPARATOR: &str = "::";
const SECRET_LETTERS: usize = 16;

/// A join token: `K3<sha256 of the authority's certificate>::<id>.<secret>`. The part after `::` is a Kubernetes bootstrap token.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct JoinToken {
    /// The hash of the authority's certificate.
    pub(crate) pin: CertificatePin,
    /// The id and the secret of the bootstrap token.
    pub(crate) id: String,
    secret: String,
}

/// The SHA-256 of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CertificatePin([u8; 32]);

/// An invalid token. Its text is not part of the message, because it may be a secret with a typo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a join token, which is K3, 64 hexadecimal digits, ::, 6 characters, a dot and 16 characters")]
pub(crate) struct InvalidToken;

// --- JoinToken ---

impl JoinToken {
    /// Length of the token id.
    pub(crate) const ID_LETTERS: usize = 6;

    /// Generates a token.
    pub(crate) fn issue(pin: CertificatePin) -> Self {
        JoinToken {
            pin,
            id: random_letters(Self::ID_LETTERS),
            secret: random_letters(SECRET_LETTERS),
        }
    }

    /// The bearer token for the server.
    pub(crate) fn bearer(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// The secret part.
    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }
}

impl FromStr for JoinToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let rest = text.trim().strip_prefix(PREFIX).ok_or(InvalidToken)?;
        let (pin, bearer) = rest.split_once(SEPARATOR).ok_or(InvalidToken)?;
        let (id, secret) = bearer.split_once('.').ok_or(InvalidToken)?;
        let is_word = |word: &str, letters| {
            word.len() == letters
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if !is_word(id, Self::ID_LETTERS) || !is_word(secret, SECRET_LETTERS) {
            return Err(InvalidToken);
        }
        Ok(JoinToken {
            pin: pin.parse()?,
            id: id.to_owned(),
            secret: secret.to_owned(),
        })
    }
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}{SEPARATOR}{}.{}", self.pin, self.id, self.secret)
    }
}

impl fmt::Debug for JoinToken {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Random lower-case letters and digits, uniformly distributed.
fn random_letters(letters: usize) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = vec![0; letters];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system returns random bytes");
    let letter = |byte: u8| char::from(LETTERS[usize::from(byte % 32)]);
    bytes.into_iter().map(letter).collect()
}

// --- CertificatePin ---

impl CertificatePin {
    /// The hash of a certificate in DER.
    pub(crate) fn of_certificate(certificate: &[u8]) -> Self {
        let hash = digest(&SHA256, certificate);
        CertificatePin(hash.as_ref().try_into().expect("it has 32 bytes"))
    }
}

impl FromStr for CertificatePin {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidToken);
        }
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| InvalidToken)?;
        }
        Ok(CertificatePin(bytes))
    }
}

impl fmt::Display for CertificatePin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_formatted_tokens() {
        let token = JoinToken::issue(CertificatePin::of_certificate(b"certificate"));
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        assert_ne!(JoinToken::issue(token.pin).bearer(), token.bearer());
        assert!(!format!("{token:?}").contains(token.secret()));
    }

    #[test]
    fn rejects_invalid_tokens() {
        let pin = CertificatePin::of_certificate(b"certificate");
        let good = format!("K3{pin}::abc123.0123456789abcdef");
        assert!(good.parse::<JoinToken>().is_ok());
        for bad in [
            String::new(),
            "abc123.0123456789abcdef".to_owned(),
            format!("K3{pin}::abc123"),
            format!("K3{pin}::ABC123.0123456789abcdef"),
            format!("K3{pin}0::abc123.0123456789abcdef"),
            good.replace(&good[2..4], "+f"),
        ] {
            assert_eq!(bad.parse::<JoinToken>(), Err(InvalidToken), "{bad}");
        }
    }
}
