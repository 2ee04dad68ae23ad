//! Subjects of certificates. Approval, signing and authentication all use this parser, so that they agree on the identity.
//!
//! Promises: a text is decoded exactly or refused; nothing of a subject is skipped.

use der::{
    Tag, Tagged,
    asn1::{Any, ObjectIdentifier},
};

use crate::{
    ParseError,
    encoding::{Name, NameAttribute, OrderedSet, check_number},
};

/// The Kubernetes user and groups of a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user: the last common name, empty if there is none.
    pub common_name: String,
    /// The groups, in their order.
    pub organizations: Vec<String>,
    /// The uids, under the number that Kubernetes has for them.
    pub uids: Vec<String>,
}

/// A subject as values. Encoding it again gives the bytes that it was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Relative names, each with one or several attributes.
    parts: Vec<Vec<Attribute>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Attribute {
    oid: ObjectIdentifier,
    form: TextForm,
    text: String,
}

/// How a text is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextForm {
    Utf8,
    Printable,
    Numeric,
    Ia5,
    Teletex,
    Bmp,
}

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
// upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509.go UserConversion
const UID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57683.2");

// --- Subject ---

impl Subject {
    /// A subject with these organizations and this common name, each a relative name of its own.
    pub fn new(organizations: &[&str], common_name: &str) -> Self {
        let attribute = |oid, text: &str| {
            vec![Attribute {
                oid,
                form: TextForm::Utf8,
                text: text.to_owned(),
            }]
        };
        let mut parts: Vec<_> = organizations
            .iter()
            .map(|organization| attribute(ORGANIZATION, organization))
            .collect();
        if !common_name.is_empty() {
            parts.push(attribute(COMMON_NAME, common_name));
        }
        Subject { parts }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The Kubernetes user and groups, read as Go's `pkix.Name`.
    pub fn identity(&self) -> Identity {
        let mut identity = Identity::default();
        for attribute in self.parts.iter().flatten() {
            let text = attribute.text.clone();
            match attribute.oid {
                COMMON_NAME => identity.common_name = text,
                ORGANIZATION => identity.organizations.push(text),
                UID => identity.uids.push(text),
                _ => {}
            }
        }
        identity
    }

    /// Each attribute by its number and text, in order, for tests that compare readers.
    pub fn attributes(&self) -> impl Iterator<Item = (String, &str)> {
        let attributes = self.parts.iter().flatten();
        attributes.map(|attribute| (attribute.oid.to_string(), &*attribute.text))
    }

    /// How many common names there are.
    pub(crate) fn count_common_names(&self) -> usize {
        let attributes = self.parts.iter().flatten();
        attributes
            .filter(|attribute| attribute.oid == COMMON_NAME)
            .count()
    }

    pub(crate) fn read(name: &Name) -> Result<Self, ParseError> {
        let parts = name.iter().map(|OrderedSet(attributes)| {
            if attributes.is_empty() {
                return Err(ParseError::Subject("an empty relative name"));
            }
            attributes.iter().map(Attribute::read).collect()
        });
        Ok(Subject {
            parts: parts.collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn to_name(&self) -> der::Result<Name> {
        let part = |attributes: &Vec<Attribute>| -> der::Result<_> {
            let attributes: der::Result<_> = attributes.iter().map(Attribute::encode).collect();
            Ok(OrderedSet(attributes?))
        };
        self.parts.iter().map(part).collect()
    }
}

// --- Attribute ---

impl Attribute {
    fn read(attribute: &NameAttribute) -> Result<Self, ParseError> {
        check_number(&attribute.oid)?;
        let (form, text) = read_text(&attribute.value).map_err(ParseError::Subject)?;
        Ok(Attribute {
            oid: attribute.oid,
            form,
            text,
        })
    }

    fn encode(&self) -> der::Result<NameAttribute> {
        let bytes = match self.form {
            TextForm::Bmp => self.text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            _ => self.text.as_bytes().to_vec(),
        };
        Ok(NameAttribute {
            oid: self.oid,
            value: Any::new(self.form.tag(), bytes)?,
        })
    }
}

// --- TextForm ---

impl TextForm {
    fn tag(self) -> Tag {
        match self {
            Self::Utf8 => Tag::Utf8String,
            Self::Printable => Tag::PrintableString,
            Self::Numeric => Tag::NumericString,
            Self::Ia5 => Tag::Ia5String,
            Self::Teletex => Tag::TeletexString,
            Self::Bmp => Tag::BmpString,
        }
    }
}

/// The text of a value, and how it is encoded.
fn read_text(value: &Any) -> Result<(TextForm, String), &'static str> {
    const BAD: &str = "a text has bytes that its type does not allow";
    let bytes = value.value();
    let (form, text) = match value.tag() {
        Tag::BmpString => {
            let (units, rest) = bytes.as_chunks::<2>();
            let units: Vec<_> = units.iter().copied().map(u16::from_be_bytes).collect();
            // The Basic Multilingual Plane alone: surrogates are other programs' extension.
            if !rest.is_empty() || units.iter().any(|unit| (0xd800..0xe000).contains(unit)) {
                return Err(BAD);
            }
            (TextForm::Bmp, String::from_utf16(&units).map_err(|_| BAD)?)
        }
        tag => {
            let text = str::from_utf8(bytes).map_err(|_| BAD)?;
            let (form, is_allowed): (_, fn(char) -> bool) = match tag {
                Tag::Utf8String => (TextForm::Utf8, |_| true),
                Tag::PrintableString => (TextForm::Printable, is_printable),
                Tag::NumericString => (TextForm::Numeric, |c| c == ' ' || c.is_ascii_digit()),
                Tag::Ia5String => (TextForm::Ia5, |c| c.is_ascii()),
                // Programs interpret non-ASCII text differently.
                Tag::TeletexString => (TextForm::Teletex, |c| c.is_ascii()),
                _ => return Err("a value that is no text"),
            };
            if !text.chars().all(is_allowed) {
                return Err(BAD);
            }
            (form, text.to_owned())
        }
    };
    if text.chars().any(char::is_control) {
        return Err("a text with control characters");
    }
    Ok((form, text))
}

/// Go and others write the last two as well.
fn is_printable(c: char) -> bool {
    c.is_ascii_alphanumeric() || " '()+,-./:=?*&".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tag: Tag, bytes: &[u8]) -> Result<String, &'static str> {
        read_text(&Any::new(tag, bytes).unwrap()).map(|(_, text)| text)
    }

    #[test]
    fn texts_are_decoded_exactly_or_refused() {
        assert_eq!(
            read(Tag::Utf8String, "gr\u{fc}n".as_bytes()).unwrap(),
            "gr\u{fc}n"
        );
        assert_eq!(read(Tag::BmpString, &[0, 0x61, 0x20, 0xac]).unwrap(), "a\u{20ac}");
        assert_eq!(
            read(Tag::PrintableString, b"system:nodes").unwrap(),
            "system:nodes"
        );
        assert_eq!(read(Tag::NumericString, b"12 3").unwrap(), "12 3");
        for (tag, bytes) in [
            (Tag::Utf8String, &b"\xff"[..]),
            (Tag::Utf8String, b"system:masters\0x"),
            (Tag::BmpString, &[0]),
            (Tag::BmpString, &[0xd8, 0x3d, 0xde, 0]),
            (Tag::BmpString, &[0, 0x61, 0, 0]),
            (Tag::PrintableString, b"a_b"),
            (Tag::PrintableString, b"a\xc3\xa9"),
            (Tag::NumericString, b"a"),
            (Tag::Ia5String, b"\xe9"),
            (Tag::TeletexString, b"\xe9"),
            (Tag::OctetString, b"a"),
        ] {
            assert!(read(tag, bytes).is_err(), "{tag} {bytes:?}");
        }
    }

    #[test]
    fn the_last_common_name_counts_and_every_organization() {
        let mut subject = Subject::new(&["a", "b"], "first");
        subject.parts.extend(Subject::new(&[], "second").parts);
        assert_eq!(subject.identity().common_name, "second");
        assert_eq!(subject.identity().organizations, ["a", "b"]);
        assert_eq!(subject.count_common_names(), 2);
        let name = subject.to_name().unwrap();
        assert_eq!(Subject::read(&name).unwrap(), subject);
    }
}
