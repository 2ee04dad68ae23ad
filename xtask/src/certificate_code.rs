//! No code outside of `crates/pki` reads or writes DER or PEM, or verifies signatures.
//!
//! Two readers of one certificate once disagreed about whose it is. What can be seen in the text of a source is refused here;
//! dependencies are refused by `tests/crate_dependencies.rs`.

/// What gives such code away: parts of PEM, of object identifiers, of the structure of DER, and of libraries.
const SIGNS: [&str; 15] = [
    "-----BEGIN ",
    "-----END ",
    "PemObject",
    "pem_slice",
    "x509_parser",
    "x509_cert",
    "rcgen::",
    "ring::signature",
    "UnparsedPublicKey",
    "EcdsaKeyPair",
    "BIT_STRING",
    "SEQUENCE: u8",
    "0x2a, 0x86, 0x48",
    "0x55, 0x1d",
    "0x55, 4,",
];

/// Files that may have one of the signs, and why.
const ALLOWED: [(&str, &str); 1] = [
    // Looks whether a file is PEM at all, for a better message than that of the library which reads it. The crate depends on
    // none of ours.
    ("crates/storage/src/etcd/options.rs", "-----BEGIN "),
];

/// What is wrong in a source file, a line each. Tests may do as they like.
pub(crate) fn complaints(name: &str, text: &str) -> Vec<String> {
    let is_exempt = name.starts_with("crates/pki/") || name.starts_with("xtask/") || is_test(name);
    if is_exempt || !name.contains("src/") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    let lines = (1..).zip(text.lines());
    for (number, line) in lines.take_while(|(_, line)| !line.starts_with("#[cfg(test)]")) {
        let is_comment = line.trim_start().starts_with("//");
        let sign = SIGNS
            .iter()
            .find(|sign| line.contains(**sign) && !ALLOWED.contains(&(name, sign)));
        if let Some(sign) = sign
            && !is_comment
        {
            complaints.push(format!(
                "{name}:{number}: `{sign}` belongs into crates/pki, the only reader and writer of DER and PEM"
            ));
        }
    }
    complaints
}

fn is_test(name: &str) -> bool {
    let mut parts = name.split('/').map(|part| part.trim_end_matches(".rs"));
    parts.any(|part| ["tests", "testing", "samples"].contains(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_reader_of_certificates_is_found() {
        for line in [
            "use rustls::pki_types::pem::PemObject;",
            "let blocks = text.split(\"-----BEGIN CERTIFICATE-----\");",
            "const SEQUENCE: u8 = 0x30;",
            "use rcgen::KeyPair;",
            "use ring::signature::UnparsedPublicKey;",
        ] {
            assert_eq!(complaints("crates/node/src/a.rs", line).len(), 1, "{line}");
            assert!(complaints("crates/pki/src/a.rs", line).is_empty());
            assert!(complaints("crates/node/src/a/tests.rs", line).is_empty());
            assert!(complaints("crates/node/tests/a.rs", line).is_empty());
            let tested = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{line}\n}}\n");
            assert!(complaints("crates/node/src/a.rs", &tested).is_empty());
        }
        assert!(
            complaints(
                "crates/node/src/a.rs",
                "// as PemObject would\nuse k3_pki::Certificate;"
            )
            .is_empty()
        );
    }
}
