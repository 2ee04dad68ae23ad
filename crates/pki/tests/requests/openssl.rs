//! The program `openssl` as another reader of the same bytes.

use std::{
    fmt::Write as _,
    fs,
    net::IpAddr,
    path::Path,
    process::{Command, Stdio},
};

use k3_pki::{AlternativeName, Subject};

/// What a reader sees: a line an attribute of the subject, and a line of all names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParsedRequest {
    pub(crate) subject: Vec<String>,
    pub(crate) names: String,
}

// --- ParsedRequest ---

impl ParsedRequest {
    /// What we see.
    pub(crate) fn ours(subject: &Subject, names: &[AlternativeName]) -> Self {
        ParsedRequest {
            subject: subject
                .attributes()
                .map(|(oid, text)| format!("{oid}={text}"))
                .collect(),
            names: names.iter().map(printed).collect::<Vec<_>>().join(", "),
        }
    }

    /// What OpenSSL sees in a request (`req`) or a certificate (`x509`); nothing if it refuses the bytes.
    pub(crate) fn by_openssl(command: &str, der: &[u8], directory: &Path) -> Option<Self> {
        let file = directory.join("input.der");
        fs::write(&file, der).unwrap();
        let output = Command::new("openssl")
            .args([command, "-inform", "DER", "-noout", "-text", "-subject"])
            .args(["-nameopt", "sep_multiline,oid,utf8", "-in"])
            .arg(&file)
            .stdin(Stdio::null())
            .output()
            .expect("the package openssl is installed");
        if !output.status.success() {
            return None;
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines = text.lines();
        let names = lines
            .by_ref()
            .find(|line| line.contains("X509v3 Subject Alternative Name:"))
            .and_then(|_| lines.next());
        let subject = text.lines().skip_while(|line| !line.starts_with("subject="));
        let attributes = subject
            .skip(1)
            .take_while(|line| line.starts_with("    ") && !line.trim().is_empty());
        Some(ParsedRequest {
            subject: attributes
                .flat_map(|line| {
                    line.trim_start()
                        .split(" + ")
                        .map(str::to_owned)
                        .collect::<Vec<_>>()
                })
                .collect(),
            names: names.map_or_else(String::new, |names| names.trim_start().to_owned()),
        })
    }
}

fn printed(name: &AlternativeName) -> String {
    match name {
        AlternativeName::Email(text) => format!("email:{text}"),
        AlternativeName::Dns(text) => format!("DNS:{text}"),
        AlternativeName::Uri(text) => format!("URI:{text}"),
        AlternativeName::Address(IpAddr::V4(address)) => format!("IP Address:{address}"),
        AlternativeName::Address(IpAddr::V6(address)) => {
            let mut text = "IP Address".to_owned();
            for segment in address.segments() {
                write!(text, ":{segment:X}").unwrap();
            }
            text
        }
    }
}
