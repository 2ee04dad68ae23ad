//! Requests that were changed at random, and signed: whatever is accepted, the approver, the authenticator and OpenSSL see the
//! same.

use std::env;

use k3_pki::CertificateRequest;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    encoder::{
        COMMON_NAME, DNS, ORGANIZATION, RequestForger, SEQUENCE, SET, UTF8, alternative_names, element,
        extension_request, issue, long_element, name, node,
    },
    openssl::ParsedRequest,
};

const MUTATIONS: usize = 4_000;
/// How many of those that are accepted are shown to OpenSSL: a process each costs.
const SAMPLES: usize = 60;

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

/// Requests to begin with, as what is signed.
fn seeds(attacker: &RequestForger) -> Vec<Vec<u8>> {
    let names = [
        element(DNS, &[b"x"]),
        element(0x87, &[&[10, 0, 0, 1]]),
        element(0x87, &[&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]),
        element(0x81, &[b"a@b.c"]),
        element(0x86, &[b"urn:x"]),
    ]
    .concat();
    let named = extension_request(&alternative_names(&names));
    let pair = |tag, text: &[u8]| element(SEQUENCE, &[&element(6, &[ORGANIZATION]), &element(tag, &[text])]);
    let several = element(
        SET,
        &[&pair(UTF8, b"devs"), &pair(UTF8, b"ops!"), &pair(0x13, b"system")],
    );
    let hidden = element(
        SET,
        &[&element(
            SEQUENCE,
            &[
                &element(6, &[ORGANIZATION]),
                &long_element(UTF8, &[b"system:masters"]),
            ],
        )],
    );
    let wide = element(SET, &[&pair(0x1e, &[0, b'a', 0x20, 0xac])]);
    vec![
        attacker.info(&node(&[]), &[]),
        attacker.info(&node(&[]), &named),
        attacker.info(&node(&name(ORGANIZATION, "system:masters")), &[]),
        attacker.info(&node(&several), &named),
        attacker.info(&node(&hidden), &named),
        attacker.info(&node(&wide), &[]),
        attacker.info(
            &element(
                SEQUENCE,
                &[&name(COMMON_NAME, "jane"), &name(&[0x55, 4, 11], "unit")],
            ),
            &[],
        ),
        attacker.info(&element(SEQUENCE, &[]), &named),
    ]
}

/// Changes bytes. Lengths around them are put right half of the time, so that the change is not seen from outside.
fn mutate(info: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = info.to_vec();
    for _ in 0..random.random_range(1..=3) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..7) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random_range(0x20..0x7f),
            2 => bytes[at] = random.random(),
            3 => bytes.insert(at, random.random()),
            4 => drop(bytes.remove(at)),
            5 => {
                // A tag of another text.
                let tags = [
                    0x0c, 0x12, 0x13, 0x14, 0x16, 0x1a, 0x1c, 0x1e, 0x81, 0x82, 0x86, 0x87, 0x88,
                ];
                if let Some(offset) = bytes.iter().skip(at).position(|byte| tags.contains(byte)) {
                    bytes[at + offset] = tags[random.random_range(0..tags.len())];
                }
            }
            _ => {
                let end = random.random_range(at..(at + 40).min(bytes.len()));
                let piece = bytes[at..end].to_vec();
                let to = random.random_range(0..bytes.len());
                bytes.splice(to..to, piece);
            }
        }
        if bytes.is_empty() {
            return info.to_vec();
        }
    }
    if random.random() { repair(&bytes) } else { bytes }
}

/// Puts the lengths of the outermost elements right, as far as that is possible.
fn repair(bytes: &[u8]) -> Vec<u8> {
    match bytes {
        [tag, 0x82, _, _, rest @ ..] | [tag, 0x81, _, rest @ ..] | [tag, _, rest @ ..] if tag & 0x20 != 0 => {
            element(*tag, &[rest])
        }
        _ => bytes.to_vec(),
    }
}

/// A change inside of the subject or of the attributes, with all lengths around it right.
fn mutate_content(attacker: &RequestForger, random: &mut StdRng) -> Vec<u8> {
    let texts: [&[u8]; 6] = [
        b"system:nodes",
        b"system:masters",
        b"a",
        b"\xc3\xa9",
        b"a\0b",
        b"\xff",
    ];
    let tags = [UTF8, 0x12, 0x13, 0x14, 0x16, 0x1e, 4, UTF8 | 0x20];
    let oids: [&[u8]; 6] = [
        ORGANIZATION,
        COMMON_NAME,
        &[0x55, 4, 11],
        &[0x55, 4, 0x80, 10],
        &[],
        &[0x2a, 3],
    ];
    let wrap = |random: &mut StdRng, tag: u8, parts: &[&[u8]]| match random.random_range(0..40) {
        0 => long_element(tag, parts),
        1 => [element(tag, parts), vec![0]].concat(),
        2 => [element(tag, parts), element(tag, parts)].concat(),
        _ => element(tag, parts),
    };
    let mut subject = Vec::new();
    for _ in 0..random.random_range(0..4) {
        let mut set = Vec::new();
        for _ in 0..random.random_range(1..3) {
            let oid = oids[random.random_range(0..oids.len())];
            let text = texts[random.random_range(0..texts.len())];
            let tag = if random.random() {
                UTF8
            } else {
                tags[random.random_range(0..tags.len())]
            };
            let oid = wrap(random, 6, &[oid]);
            let text = wrap(random, tag, &[text]);
            set.push(wrap(random, SEQUENCE, &[&oid, &text]));
        }
        if random.random_range(0..4) > 0 {
            set.sort();
        }
        subject.extend(wrap(random, SET, &[&set.concat()]));
    }
    let mut names = Vec::new();
    for _ in 0..random.random_range(0..3) {
        let tag = [0x81, 0x82, 0x86, 0x87, 0x88, 0xa4, 0xa0][random.random_range(0..7)];
        let text: &[u8] =
            [&b"node"[..], b"kubernetes", &[10, 0, 0, 1], b"", b"a\0"][random.random_range(0..5)];
        names.extend(wrap(random, tag, &[text]));
    }
    let mut attributes = Vec::new();
    if !names.is_empty() || random.random() {
        let extension = alternative_names(&names);
        let extension = if random.random_range(0..20) == 0 {
            [&*extension, &*extension].concat()
        } else {
            extension
        };
        let attribute = extension_request(&extension);
        attributes.extend(&attribute);
        if random.random_range(0..20) == 0 {
            attributes.extend(&attribute);
        }
    }
    let subject = wrap(random, SEQUENCE, &[&subject]);
    attacker.info(&subject, &attributes)
}

#[test]
fn what_the_approver_sees_is_what_the_authenticator_and_openssl_read() {
    let seed = number("K3_TEST_SEED").unwrap_or_else(|| StdRng::from_rng(&mut rand::rng()).random());
    println!("K3_TEST_SEED={seed} makes the same choices again");
    let count = MUTATIONS * usize::try_from(number("K3_TEST_FACTOR").unwrap_or(1)).unwrap();
    let mut random = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let attacker = RequestForger::new();
    let seeds = seeds(&attacker);
    let mut accepted = 0;
    for round in 0..count {
        let info = if round % 2 == 0 {
            let seed = &seeds[random.random_range(0..seeds.len())];
            mutate(seed, &mut random)
        } else {
            mutate_content(&attacker, &mut random)
        };
        let der = attacker.sign(&info);
        let Ok(request) = CertificateRequest::from_der(&der) else {
            continue;
        };
        accepted += 1;
        let (certificate_der, certificate) = issue(&request);
        assert_eq!(certificate.subject, *request.subject());
        assert_eq!(certificate.identity, *request.identity());
        assert_eq!(certificate.names.names, request.names());
        assert!(!certificate.names.has_others);
        assert_eq!(certificate.public_key, *request.public_key());
        let is_sample = accepted <= SAMPLES || accepted % (count / SAMPLES) == 0;
        if is_sample {
            let ours = ParsedRequest::ours(request.subject(), request.names());
            for (command, der) in [("req", &der), ("x509", &certificate_der)] {
                let seen = ParsedRequest::by_openssl(command, der, directory.path());
                assert_eq!(seen.as_ref(), Some(&ours), "{command} {der:02x?}");
            }
        }
    }
    assert!(accepted > count / 50, "only {accepted} of {count} were accepted");
    println!("{accepted} of {count} were accepted");
}
