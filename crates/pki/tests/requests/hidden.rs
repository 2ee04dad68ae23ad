//! Parts of requests that one reader sees and another does not.

use k3_pki::{AlternativeName, CertificateRequest};

use super::encoder::{
    COMMON_NAME, DNS, ORGANIZATION, RequestForger, SEQUENCE, SET, UTF8, alternative_names, element,
    extension_request, issue, long_element, name, node,
};

const MASTERS: &[u8] = b"system:masters";

fn is_refused(request: &[u8]) -> bool {
    CertificateRequest::from_der(request).is_err()
}

#[test]
fn a_hidden_organization_is_refused() {
    let attacker = RequestForger::new();
    let oid = element(6, &[ORGANIZATION]);
    let text = element(UTF8, &[MASTERS]);
    let pair = element(SEQUENCE, &[&oid, &text]);
    for (location, more) in [
        (
            "the text",
            element(
                SET,
                &[&element(SEQUENCE, &[&oid, &long_element(UTF8, &[MASTERS])])],
            ),
        ),
        (
            "the number",
            element(
                SET,
                &[&element(SEQUENCE, &[&long_element(6, &[ORGANIZATION]), &text])],
            ),
        ),
        (
            "the attribute",
            element(SET, &[&long_element(SEQUENCE, &[&oid, &text])]),
        ),
        ("the relative name", long_element(SET, &[&pair])),
        (
            "a part of the number",
            element(
                SET,
                &[&element(SEQUENCE, &[&element(6, &[&[0x55, 4, 0x80, 10]]), &text])],
            ),
        ),
        ("an indefinite length", [&[SET, 0x80], &*pair, &[0, 0]].concat()),
        (
            "bytes after the text",
            element(SET, &[&element(SEQUENCE, &[&oid, &text, &text])]),
        ),
        (
            "a set in the wrong order",
            element(
                SET,
                &[&pair, &element(SEQUENCE, &[&oid, &element(UTF8, &[b"a"])])],
            ),
        ),
        ("an empty set", element(SET, &[])),
        ("a sequence for a set", element(SEQUENCE, &[&pair])),
        (
            "a text of another type",
            element(SET, &[&element(SEQUENCE, &[&oid, &element(4, &[MASTERS])])]),
        ),
        (
            "a text in two parts",
            element(
                SET,
                &[&element(SEQUENCE, &[&oid, &element(UTF8 | 0x20, &[&text])])],
            ),
        ),
        (
            "a text with an end",
            element(
                SET,
                &[&element(SEQUENCE, &[&oid, &element(UTF8, &[MASTERS, b"\0"])])],
            ),
        ),
        ("a second common name", name(COMMON_NAME, "system:admin")),
    ] {
        assert!(is_refused(&attacker.request(&node(&more), &[])), "{location}");
    }
    assert!(!is_refused(&attacker.request(&node(&[]), &[])));
}

#[test]
fn a_visible_organization_is_seen_and_issued() {
    let attacker = RequestForger::new();
    // One relative name with two organizations, and one with another: all are groups.
    let pair = |text: &[u8]| element(SEQUENCE, &[&element(6, &[ORGANIZATION]), &element(UTF8, &[text])]);
    let both = element(SET, &[&pair(b"aaa"), &pair(MASTERS)]);
    let request = CertificateRequest::from_der(&attacker.request(&node(&both), &[])).unwrap();
    assert_eq!(
        request.identity().organizations,
        ["system:nodes", "aaa", "system:masters"]
    );
    let (_, certificate) = issue(&request);
    assert_eq!(certificate.identity, *request.identity());
}

#[test]
fn hidden_names_are_refused() {
    let attacker = RequestForger::new();
    let own = element(DNS, &[b"x"]);
    let other = element(DNS, &[b"kubernetes.default.svc"]);
    let names = alternative_names(&own);
    let attribute = extension_request(&names);
    let named = CertificateRequest::from_der(&attacker.request(&node(&[]), &attribute)).unwrap();
    assert_eq!(named.names(), [AlternativeName::Dns("x".to_owned())]);
    let hidden = long_element(DNS, &[b"kubernetes.default.svc"]);
    let others = alternative_names(&other);
    let second_value = {
        let lists = [element(SEQUENCE, &[&names]), element(SEQUENCE, &[&others])].concat();
        let oid = &attribute[2..13];
        element(SEQUENCE, &[oid, &element(SET, &[&lists])])
    };
    for (location, attributes) in [
        (
            "the name",
            extension_request(&alternative_names(&[own.clone(), hidden].concat())),
        ),
        (
            "a second extension",
            extension_request(&[names.clone(), others.clone()].concat()),
        ),
        (
            "a second attribute",
            [attribute.clone(), extension_request(&others)].concat(),
        ),
        ("a second value", second_value),
        ("bytes after the extensions", [&*attribute, &[5, 0]].concat()),
        (
            "an unknown attribute",
            element(SEQUENCE, &[&element(6, &[&[0x2a, 3]]), &element(SET, &[&[5, 0]])]),
        ),
        (
            "an unknown extension",
            extension_request(&element(
                SEQUENCE,
                &[&element(6, &[&[0x2a, 3]]), &element(4, &[&[5, 0]])],
            )),
        ),
        (
            "another sort of name",
            extension_request(&alternative_names(&element(0x88, &[&[0x2a, 3]]))),
        ),
        (
            "an address of three bytes",
            extension_request(&alternative_names(&element(0x87, &[&[10, 0, 0]]))),
        ),
        ("no name", extension_request(&alternative_names(&[]))),
    ] {
        assert!(
            is_refused(&attacker.request(&node(&[]), &attributes)),
            "{location}"
        );
    }
}

/// Each element of a request in turn gets a length that is not the shortest one: no reader may take it.
#[test]
fn no_element_has_a_longer_length_than_it_needs() {
    let attacker = RequestForger::new();
    let attributes = extension_request(&alternative_names(&element(DNS, &[b"x"])));
    let info = attacker.info(&node(&name(ORGANIZATION, "more")), &attributes);
    let count = count_elements(&info);
    assert!(count > 25, "{count}");
    for index in 0..count {
        let mut left = index;
        let changed = lengthen(&info, &mut left);
        assert!(changed.len() > info.len(), "{index}");
        assert!(is_refused(&attacker.sign(&changed)), "element {index}");
    }
    assert!(!is_refused(&attacker.sign(&info)));
}

#[test]
fn what_is_cut_or_continued_is_refused() {
    let whole = RequestForger::new().request(&node(&[]), &[]);
    for end in 0..whole.len() {
        assert!(is_refused(&whole[..end]), "{end}");
    }
    assert!(is_refused(&[&*whole, &[0]].concat()));
}

/// The elements directly in some bytes: tag, content.
fn split(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let [tag, first, rest @ ..] = bytes {
        let (length, rest) = match first {
            0x81 => (usize::from(rest[0]), &rest[1..]),
            0x82 => (usize::from(rest[0]) << 8 | usize::from(rest[1]), &rest[2..]),
            short => (usize::from(*short), rest),
        };
        found.push((*tag, &rest[..length]));
        bytes = &rest[length..];
    }
    found
}

/// Whether an element holds others: by its tag, or, for the value of an extension, by how it begins.
fn holds_others(tag: u8, content: &[u8]) -> bool {
    tag & 0x20 != 0 || tag == 4 && content.first() == Some(&SEQUENCE)
}

fn count_elements(bytes: &[u8]) -> usize {
    let inner = |(tag, content)| {
        if holds_others(tag, content) {
            count_elements(content)
        } else {
            0
        }
    };
    split(bytes).into_iter().map(|element| 1 + inner(element)).sum()
}

fn lengthen(bytes: &[u8], left: &mut usize) -> Vec<u8> {
    let mut written = Vec::new();
    for (tag, content) in split(bytes) {
        let is_meant = *left == 0;
        *left = left.wrapping_sub(1);
        let content = if holds_others(tag, content) {
            lengthen(content, left)
        } else {
            content.to_vec()
        };
        written.extend(if is_meant {
            long_element(tag, &[&content])
        } else {
            element(tag, &[&content])
        });
    }
    written
}
