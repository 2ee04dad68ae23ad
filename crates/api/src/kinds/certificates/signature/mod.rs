//! Whether who asks for a certificate has the key: the signature of a request, verified with the key in it.
//!
//! Only what everybody may see goes in, so nothing here hides how long it takes.

mod digest;
mod edwards;
mod elliptic;
mod modular;
mod rsa;

use self::digest::Hash;
use super::{
    der::{OBJECT, Reader, SEQUENCE, part},
    x509::{Key, Request},
};

/// How something is signed.
#[derive(Clone, Copy)]
enum Scheme {
    Rsa(Hash),
    /// With a padding that is told beside the name.
    RsaPadded,
    Elliptic(Hash),
    Edwards,
}

const SCHEMES: [(&[u8], Scheme); 8] = [
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a", Scheme::RsaPadded),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", Scheme::Rsa(Hash::Sha256)),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c", Scheme::Rsa(Hash::Sha384)),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d", Scheme::Rsa(Hash::Sha512)),
    (
        b"\x2a\x86\x48\xce\x3d\x04\x03\x02",
        Scheme::Elliptic(Hash::Sha256),
    ),
    (
        b"\x2a\x86\x48\xce\x3d\x04\x03\x03",
        Scheme::Elliptic(Hash::Sha384),
    ),
    (
        b"\x2a\x86\x48\xce\x3d\x04\x03\x04",
        Scheme::Elliptic(Hash::Sha512),
    ),
    (b"\x2b\x65\x70", Scheme::Edwards),
];

const UNKNOWN: &str = "x509: cannot verify signature: algorithm unimplemented";

/// Verifies the signature of a request, or tells why it is none.
pub(super) fn verify(request: &Request<'_>) -> Result<(), String> {
    let mut algorithm = Reader::new(request.algorithm);
    let name = algorithm.next(OBJECT).map(|name| name.content).ok_or(UNKNOWN)?;
    let known = SCHEMES.iter().find(|(scheme, _)| *scheme == name);
    let (_, scheme) = known.ok_or(UNKNOWN)?;
    let (text, signature, key) = (request.signed, request.signature, request.key_bits);
    let sort = Key::read(request.public_key)?;
    match (*scheme, sort) {
        (_, Key::Unknown) => Err(UNKNOWN.to_owned()),
        (Scheme::Rsa(hash), Key::Rsa(_)) => rsa::verify(key, hash, text, signature),
        (Scheme::RsaPadded, Key::Rsa(_)) => {
            let hash = padding_hash(&mut algorithm).ok_or(UNKNOWN)?;
            rsa::verify_padded(key, hash, text, signature)
        }
        (Scheme::Elliptic(hash), Key::Elliptic(curve)) => {
            let curve = elliptic::curve(curve).ok_or(UNKNOWN)?;
            let verified = elliptic::verify(curve, key, &hash.of(text), signature);
            verified.ok_or_else(|| "x509: ECDSA verification failure".to_owned())
        }
        (Scheme::Edwards, Key::Ed25519) => edwards::verify(key, text, signature)
            .ok_or_else(|| "x509: Ed25519 verification failure".to_owned()),
        (scheme, sort) => Err(mismatch(scheme, &sort)),
    }
}

/// The hash that a padding is made with.
fn padding_hash(algorithm: &mut Reader<'_>) -> Option<Hash> {
    let mut parameters = algorithm.enter(SEQUENCE)?;
    let mut hash = parameters.enter(part(0))?.enter(SEQUENCE)?;
    match hash.next(OBJECT)?.content {
        b"\x60\x86\x48\x01\x65\x03\x04\x02\x01" => Some(Hash::Sha256),
        b"\x60\x86\x48\x01\x65\x03\x04\x02\x02" => Some(Hash::Sha384),
        b"\x60\x86\x48\x01\x65\x03\x04\x02\x03" => Some(Hash::Sha512),
        _ => None,
    }
}

fn mismatch(scheme: Scheme, key: &Key) -> String {
    let expected = match scheme {
        Scheme::Rsa(_) | Scheme::RsaPadded => "RSA",
        Scheme::Elliptic(_) => "ECDSA",
        Scheme::Edwards => "Ed25519",
    };
    let found = match key {
        Key::Rsa(_) => "*rsa.PublicKey",
        Key::Elliptic(_) => "*ecdsa.PublicKey",
        Key::Ed25519 | Key::Unknown => "ed25519.PublicKey",
    };
    format!(
        "x509: signature algorithm specifies an {expected} public key, but have public key of type {found}"
    )
}

#[cfg(test)]
mod tests {
    use super::{super::samples, *};

    #[test]
    fn every_sort_of_key_signs_its_request() {
        for request in samples::REQUESTS {
            let bytes = samples::bytes(request);
            assert_eq!(verify(&Request::read(&bytes).unwrap()), Ok(()), "{request}");
        }
    }

    #[test]
    fn a_request_that_was_changed_is_refused() {
        let mut faults = Vec::new();
        for request in samples::REQUESTS {
            let mut bytes = samples::bytes(request);
            // The one letter of the subject.
            let at = bytes
                .windows(3)
                .position(|window| window == b"\x0c\x01a")
                .unwrap()
                + 2;
            bytes[at] = b'b';
            faults.push(verify(&Request::read(&bytes).unwrap()).unwrap_err());
        }
        assert_eq!(
            faults,
            [
                "x509: ECDSA verification failure",
                "x509: ECDSA verification failure",
                "x509: ECDSA verification failure",
                "x509: Ed25519 verification failure",
                "crypto/rsa: verification error",
                "crypto/rsa: verification error",
            ]
        );
    }

    #[test]
    fn a_signature_that_was_changed_is_refused() {
        for request in samples::REQUESTS {
            let mut bytes = samples::bytes(request);
            *bytes.last_mut().unwrap() ^= 1;
            assert!(verify(&Request::read(&bytes).unwrap()).is_err(), "{request}");
        }
    }
}
