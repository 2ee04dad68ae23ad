//! What certificates may be used for, in the words of the API.

use der::{Encode, asn1::ObjectIdentifier, flagset::FlagSet};
use x509_cert::ext::pkix::{ExtendedKeyUsage, KeyUsage, KeyUsages};

/// Usages of the key itself.
// upstream: staging/src/k8s.io/api/certificates/v1/types.go KeyUsage
const BITS: [(&str, KeyUsages); 10] = [
    ("signing", KeyUsages::DigitalSignature),
    ("digital signature", KeyUsages::DigitalSignature),
    ("content commitment", KeyUsages::NonRepudiation),
    ("key encipherment", KeyUsages::KeyEncipherment),
    ("data encipherment", KeyUsages::DataEncipherment),
    ("key agreement", KeyUsages::KeyAgreement),
    ("cert sign", KeyUsages::KeyCertSign),
    ("crl sign", KeyUsages::CRLSign),
    ("encipher only", KeyUsages::EncipherOnly),
    ("decipher only", KeyUsages::DecipherOnly),
];

/// Usages beyond that, in the order in which upstream's certificates have them.
const PURPOSES: [(&str, &str); 13] = [
    ("any", "2.5.29.37.0"),
    ("server auth", "1.3.6.1.5.5.7.3.1"),
    ("client auth", "1.3.6.1.5.5.7.3.2"),
    ("code signing", "1.3.6.1.5.5.7.3.3"),
    ("email protection", "1.3.6.1.5.5.7.3.4"),
    ("s/mime", "1.3.6.1.5.5.7.3.4"),
    ("ipsec end system", "1.3.6.1.5.5.7.3.5"),
    ("ipsec tunnel", "1.3.6.1.5.5.7.3.6"),
    ("ipsec user", "1.3.6.1.5.5.7.3.7"),
    ("timestamping", "1.3.6.1.5.5.7.3.8"),
    ("ocsp signing", "1.3.6.1.5.5.7.3.9"),
    ("microsoft sgc", "1.3.6.1.4.1.311.10.3.3"),
    ("netscape sgc", "2.16.840.1.113730.4.1"),
];

/// The value of the extension for usages of the key itself, if there are any.
pub(crate) fn encode_key_usage(usages: &[&str]) -> der::Result<Option<Vec<u8>>> {
    let bits = BITS.iter().filter(|(name, _)| usages.contains(name));
    let bits: FlagSet<KeyUsages> = bits.fold(FlagSet::default(), |sum, (_, bit)| sum | *bit);
    if bits.is_empty() {
        return Ok(None);
    }
    KeyUsage(bits).to_der().map(Some)
}

/// The value of the extension for the other usages, if there are any.
pub(crate) fn encode_purposes(usages: &[&str]) -> der::Result<Option<Vec<u8>>> {
    let numbers = PURPOSES.iter().filter(|(name, _)| usages.contains(name));
    let mut numbers: Vec<_> = numbers
        .map(|(_, number)| ObjectIdentifier::new_unwrap(number))
        .collect();
    numbers.dedup();
    if numbers.is_empty() {
        return Ok(None);
    }
    ExtendedKeyUsage(numbers).to_der().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usages_are_bits_and_numbers() {
        assert_eq!(encode_key_usage(&["client auth"]).unwrap(), None);
        let both = encode_key_usage(&["key encipherment", "signing", "digital signature"]).unwrap();
        assert_eq!(both, Some(vec![3, 2, 5, 0xa0]));
        assert_eq!(
            encode_key_usage(&["decipher only"]).unwrap(),
            Some(vec![3, 3, 7, 0, 0x80])
        );
        assert_eq!(encode_purposes(&["signing"]).unwrap(), None);
        let mail = encode_purposes(&["email protection", "s/mime"]).unwrap();
        assert_eq!(mail, Some(vec![0x30, 10, 6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 4]));
    }
}
