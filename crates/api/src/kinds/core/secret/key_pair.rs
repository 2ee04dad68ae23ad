//! Whether a certificate and a private key look like what they should be: PEM blocks of the right types.
//!
//! What is inside the blocks is not looked into.

use k3_pki::pem_blocks;

/// Why a certificate and its key cannot be used; `None` if nothing speaks against it.
pub(super) fn msg(certificate: &[u8], key: &[u8]) -> Option<String> {
    certificate_fault(&types(certificate)).or_else(|| key_fault(&types(key)))
}

fn certificate_fault(types: &[String]) -> Option<String> {
    if types.iter().any(|ty| ty == "CERTIFICATE") {
        return None;
    }
    Some(match types {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [only] if only.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs \
             may have been switched"
                .to_owned()
        }
        _ => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
             following types: [{}]",
            types.join(" ")
        ),
    })
}

fn key_fault(types: &[String]) -> Option<String> {
    if types
        .iter()
        .any(|ty| ty == "PRIVATE KEY" || ty.ends_with(" PRIVATE KEY"))
    {
        return None;
    }
    Some(match types {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        _ => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks \
             of the following types: [{}]",
            types.join(" ")
        ),
    })
}

/// The types of the complete blocks, in order.
fn types(input: &[u8]) -> Vec<String> {
    pem_blocks(input).into_iter().map(|block| block.label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(ty: &str) -> String {
        format!("-----BEGIN {ty}-----\nQUJD\nREVG\n-----END {ty}-----\n")
    }

    #[test]
    fn blocks_of_the_right_types_are_asked_for() {
        let certificate = block("CERTIFICATE");
        let key = block("EC PRIVATE KEY");
        let messages = |certificate: &str, key: &str| msg(certificate.as_bytes(), key.as_bytes());
        assert_eq!(
            messages(&certificate, &format!("{}{key}", block("EC PARAMETERS"))),
            None
        );
        assert_eq!(
            messages("", &key).as_deref(),
            Some("tls: failed to find any PEM data in certificate input")
        );
        assert!(messages(&key, &certificate).is_some_and(|msg| msg.ends_with("may have been switched")));
        assert_eq!(
            messages(&certificate, &certificate).as_deref(),
            Some("tls: found a certificate rather than a key in the PEM for the private key")
        );
        assert_eq!(
            messages(&certificate, "-----BEGIN PRIVATE KEY-----\nQUJD\n").as_deref(),
            Some("tls: failed to find any PEM data in key input")
        );
    }
}
