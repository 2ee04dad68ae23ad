//! PEM block types of a certificate and a private key. The contents of the blocks are not parsed.

use k3_pki::pem_blocks;

/// Why a certificate and its key are invalid, in the words of Go's `tls.X509KeyPair`.
// upstream: pkg/registry/core/secret/strategy.go warningsForSecret; it calls tls.X509KeyPair of the Go library
pub(super) fn invalid_key_pair_message(certificate: &[u8], key: &[u8]) -> Option<String> {
    invalid_certificate_message(&block_types(certificate)).or_else(|| invalid_key_message(&block_types(key)))
}

fn invalid_certificate_message(types: &[String]) -> Option<String> {
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

fn invalid_key_message(types: &[String]) -> Option<String> {
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
fn block_types(input: &[u8]) -> Vec<String> {
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
        let messages =
            |certificate: &str, key: &str| invalid_key_pair_message(certificate.as_bytes(), key.as_bytes());
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
