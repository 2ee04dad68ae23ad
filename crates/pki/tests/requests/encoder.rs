//! Requests as an attacker writes them: byte by byte, and signed.

use k3_pki::{Authority, Certificate, CertificateRequest, KeyPair, Subject, Template};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};

pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
pub(crate) const UTF8: u8 = 0x0c;
pub(crate) const COMMON_NAME: &[u8] = &[0x55, 4, 3];
pub(crate) const ORGANIZATION: &[u8] = &[0x55, 4, 10];
pub(crate) const DNS: u8 = 0x82;
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 0x0e];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

/// A client with a private key.
pub(crate) struct RequestForger {
    key: EcdsaKeyPair,
    /// The public key with its algorithm.
    info: Vec<u8>,
    random: SystemRandom,
}

/// An element in its one form.
pub(crate) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut bytes = vec![tag];
    match content.len() {
        short @ 0..=0x7f => bytes.push(u8::try_from(short).unwrap()),
        middle @ 0x80..=0xff => bytes.extend([0x81, u8::try_from(middle).unwrap()]),
        long => {
            bytes.push(0x82);
            bytes.extend(u16::try_from(long).unwrap().to_be_bytes());
        }
    }
    bytes.extend(content);
    bytes
}

/// The same with a length that takes more bytes than it needs.
pub(crate) fn long_element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut bytes = vec![tag, 0x83, 0];
    bytes.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
    bytes.extend(content);
    bytes
}

/// A relative name of one attribute.
pub(crate) fn name(oid: &[u8], text: &str) -> Vec<u8> {
    let pair = element(
        SEQUENCE,
        &[&element(6, &[oid]), &element(UTF8, &[text.as_bytes()])],
    );
    element(SET, &[&pair])
}

/// The subject of a node, with more relative names behind it.
pub(crate) fn node(more: &[u8]) -> Vec<u8> {
    let group = name(ORGANIZATION, "system:nodes");
    let user = name(COMMON_NAME, "system:node:x");
    element(SEQUENCE, &[&group, &user, more])
}

/// An extension with alternative names.
pub(crate) fn alternative_names(names: &[u8]) -> Vec<u8> {
    let list = element(SEQUENCE, &[names]);
    element(
        SEQUENCE,
        &[&element(6, &[ALTERNATIVE_NAMES]), &element(4, &[&list])],
    )
}

/// An attribute that asks for extensions.
pub(crate) fn extension_request(extensions: &[u8]) -> Vec<u8> {
    let list = element(SEQUENCE, &[extensions]);
    element(
        SEQUENCE,
        &[&element(6, &[EXTENSION_REQUEST]), &element(SET, &[&list])],
    )
}

/// The certificate that an authority issues for a request.
pub(crate) fn issue(request: &CertificateRequest) -> (Vec<u8>, Certificate) {
    let issued = authority(request);
    let der = k3_pki::read_certificates(issued.as_bytes())
        .unwrap()
        .swap_remove(0);
    let certificate = Certificate::from_der(&der).unwrap();
    (der.to_vec(), certificate)
}

fn authority(request: &CertificateRequest) -> String {
    thread_local!(static AUTHORITY: Authority = {
        let subject = Subject::new(&[], "authority");
        let template = template(&subject, &["cert sign"]);
        Authority::self_signed(KeyPair::generate().unwrap(), &template).unwrap()
    });
    let template = Template {
        names: request.names(),
        ..template(request.subject(), &["client auth"])
    };
    AUTHORITY.with(|authority| authority.issue(&template, request.public_key()).unwrap())
}

fn template<'t>(subject: &'t Subject, usages: &'t [&'t str]) -> Template<'t> {
    Template {
        subject,
        names: &[],
        usages,
        not_before: 1_700_000_000,
        not_after: 1_800_000_000,
        serial: [7; 16],
    }
}

// --- RequestForger ---

impl RequestForger {
    pub(crate) fn new() -> Self {
        let pair = KeyPair::generate().unwrap();
        let random = SystemRandom::new();
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pair.to_pkcs8(), &random).unwrap();
        RequestForger {
            key,
            info: pair.public_key().unwrap().info().to_vec(),
            random,
        }
    }

    /// What is to be signed.
    pub(crate) fn info(&self, subject: &[u8], attributes: &[u8]) -> Vec<u8> {
        let attributes = element(0xa0, &[attributes]);
        element(SEQUENCE, &[&[2, 1, 0], subject, &self.info, &attributes])
    }

    /// A request with a good signature, whatever it is that is signed.
    pub(crate) fn sign(&self, info: &[u8]) -> Vec<u8> {
        let signature = self.key.sign(&self.random, info).unwrap();
        let algorithm = element(SEQUENCE, &[&element(6, &[ECDSA_WITH_SHA256])]);
        let signature = element(3, &[&[0], signature.as_ref()]);
        element(SEQUENCE, &[info, &algorithm, &signature])
    }

    pub(crate) fn request(&self, subject: &[u8], attributes: &[u8]) -> Vec<u8> {
        self.sign(&self.info(subject, attributes))
    }
}
