//! The names that a certificate is for besides its subject.

use std::net::IpAddr;

use der::{Encode, Tag, TagNumber, Tagged, asn1::Any};

use crate::{ParseError, encoding::decode};

/// One name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlternativeName {
    /// An address of mail.
    Email(String),
    /// A host.
    Dns(String),
    /// A resource.
    Uri(String),
    /// An address in the network.
    Address(IpAddr),
}

/// All names, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    /// Those of the sorts that Kubernetes knows.
    pub names: Vec<AlternativeName>,
    /// Whether there are others.
    pub has_others: bool,
}

const EMAIL: u32 = 1;
const DNS: u32 = 2;
const URI: u32 = 6;
const ADDRESS: u32 = 7;

// --- AlternativeName ---

impl AlternativeName {
    /// An address if the text is one, else a host.
    pub fn from_host(text: &str) -> Self {
        match text.parse() {
            Ok(address) => Self::Address(address),
            Err(_) => Self::Dns(text.to_owned()),
        }
    }

    fn read(name: &Any) -> Result<Option<Self>, &'static str> {
        let Tag::ContextSpecific {
            constructed: false,
            number: TagNumber(number),
        } = name.tag()
        else {
            return Ok(None);
        };
        Ok(Some(match number {
            EMAIL => Self::Email(read_text(name)?),
            DNS => Self::Dns(read_text(name)?),
            URI => Self::Uri(read_text(name)?),
            ADDRESS => Self::Address(read_address(name.value())?),
            _ => return Ok(None),
        }))
    }

    fn encode(&self) -> der::Result<Any> {
        let (number, bytes) = match self {
            Self::Email(text) => (EMAIL, text.as_bytes().to_vec()),
            Self::Dns(text) => (DNS, text.as_bytes().to_vec()),
            Self::Uri(text) => (URI, text.as_bytes().to_vec()),
            Self::Address(IpAddr::V4(address)) => (ADDRESS, address.octets().to_vec()),
            Self::Address(IpAddr::V6(address)) => (ADDRESS, address.octets().to_vec()),
        };
        Any::new(TagNumber(number).context_specific(false), bytes)
    }
}

// --- AlternativeNames ---

impl AlternativeNames {
    /// The hosts and addresses, as texts.
    pub fn hosts(&self) -> Vec<String> {
        let names = self.names.iter().filter_map(|name| match name {
            AlternativeName::Dns(host) => Some(host.clone()),
            AlternativeName::Address(address) => Some(address.to_string()),
            AlternativeName::Email(_) | AlternativeName::Uri(_) => None,
        });
        names.collect()
    }

    /// Reads the value of the extension.
    pub(crate) fn read(value: &[u8]) -> Result<Self, ParseError> {
        let all: Vec<Any> = decode(value)?;
        if all.is_empty() {
            return Err(ParseError::AlternativeNames("an empty list"));
        }
        let mut read = AlternativeNames::default();
        for name in &all {
            match AlternativeName::read(name).map_err(ParseError::AlternativeNames)? {
                Some(name) => read.names.push(name),
                None => read.has_others = true,
            }
        }
        Ok(read)
    }
}

/// The value of the extension for these names.
pub(crate) fn encode_names(names: &[AlternativeName]) -> der::Result<Vec<u8>> {
    let names: der::Result<Vec<_>> = names.iter().map(AlternativeName::encode).collect();
    names?.to_der()
}

fn read_text(name: &Any) -> Result<String, &'static str> {
    let text = str::from_utf8(name.value()).map_err(|_| "a name that is not ASCII")?;
    if !text.is_ascii() {
        return Err("a name that is not ASCII");
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err("a name with control characters");
    }
    Ok(text.to_owned())
}

fn read_address(bytes: &[u8]) -> Result<IpAddr, &'static str> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .map_err(|_| "an address that has neither four nor sixteen bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let names = vec![
            AlternativeName::Dns("a.example.com".to_owned()),
            AlternativeName::from_host("10.0.0.1"),
            AlternativeName::from_host("::ffff:10.0.0.1"),
            AlternativeName::Email("a@b.c".to_owned()),
            AlternativeName::Uri("urn:x".to_owned()),
        ];
        let bytes = encode_names(&names).unwrap();
        let read = AlternativeNames::read(&bytes).unwrap();
        assert_eq!(read.names, names);
        assert!(!read.has_others);
    }

    #[test]
    fn odd_names_are_refused_and_other_sorts_are_noticed() {
        for bytes in [
            &[0x30, 0][..],
            &[0x30, 3, 0x82, 1, 0xe9],
            &[0x30, 3, 0x82, 1, 0],
            &[0x30, 4, 0x82, 0x81, 1, b'a'],
            &[0x30, 5, 0x87, 3, 1, 2, 3],
            &[0x30, 3, 0x82, 1, b'a', 0],
        ] {
            assert!(AlternativeNames::read(bytes).is_err(), "{bytes:?}");
        }
        // A registered number.
        let read = AlternativeNames::read(&[0x30, 4, 0x88, 2, 0x2a, 3]).unwrap();
        assert!(read.has_others);
    }
}
