//! Requests with keys of every sort, as OpenSSL makes them.

use k3_pki::{AlternativeName, Certificate, CertificateRequest, Curve, KeyKind, RequestError, pem_blocks};

const REQUESTS: [(&str, KeyKind, &str); 6] = [
    (
        include_str!("../samples/p256.pem"),
        KeyKind::Ecdsa(Curve::P256),
        "x509: ECDSA verification failure",
    ),
    (
        include_str!("../samples/p384.pem"),
        KeyKind::Ecdsa(Curve::P384),
        "x509: ECDSA verification failure",
    ),
    (
        include_str!("../samples/p521.pem"),
        KeyKind::Ecdsa(Curve::P521),
        "x509: ECDSA verification failure",
    ),
    (
        include_str!("../samples/ed25519.pem"),
        KeyKind::Ed25519,
        "x509: Ed25519 verification failure",
    ),
    (
        include_str!("../samples/rsa.pem"),
        KeyKind::Rsa { bits: 3072 },
        "crypto/rsa: verification error",
    ),
    (
        include_str!("../samples/rsa-pss.pem"),
        KeyKind::Rsa { bits: 3072 },
        "crypto/rsa: verification error",
    ),
];

#[test]
fn every_sort_of_key_signs_its_request() {
    for (text, kind, _) in REQUESTS {
        let request = CertificateRequest::from_pem(text.as_bytes()).unwrap();
        assert_eq!(request.public_key().kind(), kind);
        assert_eq!(request.identity().common_name, "a");
    }
}

#[test]
fn a_request_that_was_changed_is_refused() {
    for (text, key, message) in REQUESTS {
        let mut bytes = pem_blocks(text.as_bytes()).remove(0).bytes;
        // The one letter of the subject.
        let at = bytes
            .windows(3)
            .position(|window| window == b"\x0c\x01a")
            .unwrap()
            + 2;
        bytes[at] = b'b';
        let error = CertificateRequest::from_der(&bytes).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(matches!(error, RequestError::Signature { key: found, .. } if found == key));
    }
}

#[test]
fn a_signature_that_was_changed_is_refused() {
    for (text, ..) in REQUESTS {
        let mut bytes = pem_blocks(text.as_bytes()).remove(0).bytes;
        *bytes.last_mut().unwrap() ^= 1;
        assert!(CertificateRequest::from_der(&bytes).is_err(), "{text}");
    }
}

#[test]
fn a_request_may_ask_for_more_names() {
    let text = include_str!("../samples/named.pem");
    let request = CertificateRequest::from_pem(text.as_bytes()).unwrap();
    assert_eq!(
        request.names(),
        [
            AlternativeName::Dns("n".to_owned()),
            AlternativeName::Address([10, 0, 0, 1].into()),
            AlternativeName::Email("a@b.c".to_owned()),
            AlternativeName::Uri("urn:x".to_owned()),
        ]
    );
}

#[test]
fn a_text_holds_one_request_and_nothing_else() {
    let (text, ..) = REQUESTS[0];
    let read = |text: &str| CertificateRequest::from_pem(text.as_bytes());
    assert!(read(&format!("for the records:\n{text}\n")).is_ok());
    assert_eq!(read(&format!("{text}{text}")), Err(RequestError::Blocks));
    assert_eq!(read(""), Err(RequestError::Label));
    let authority = include_str!("../samples/authority.pem");
    assert_eq!(read(authority), Err(RequestError::Label));
    assert_eq!(read(&format!("{authority}{text}")), Err(RequestError::Label));
}

#[test]
fn the_certificate_of_an_authority_is_read() {
    let bytes = pem_blocks(include_bytes!("../samples/authority.pem"))
        .remove(0)
        .bytes;
    let certificate = Certificate::from_der(&bytes).unwrap();
    assert!(certificate.is_authority);
    assert_eq!(
        (certificate.not_before, certificate.not_after),
        (1_794_776_571, 4_948_376_571)
    );
    assert_eq!(certificate.public_key.kind(), KeyKind::Rsa { bits: 2048 });
    assert_eq!(certificate.identity.common_name, "golden-ca");
    for end in 0..bytes.len() {
        assert!(Certificate::from_der(&bytes[..end]).is_err());
    }
    let twice = [&*bytes, &*bytes].concat();
    assert!(Certificate::from_der(&twice).is_err());
    assert_eq!(Certificate::list_from_der(&twice).unwrap().len(), 2);
}
