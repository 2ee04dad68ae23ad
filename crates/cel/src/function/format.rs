//! Named formats of texts: `format.dns1123Label().validate(self)`.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/format.go Format, formatValidate
// upstream: staging/src/k8s.io/apiserver/pkg/cel/format.go Format

use super::{Implementation, no_overload, time, url::Url};
use crate::{
    base64::is_base64,
    value::{OpaqueValue, Result, Value},
};

/// A named format.
#[derive(Debug)]
pub struct Format {
    /// Its name in expressions.
    key: &'static str,
    /// Its own name.
    pub(crate) name: &'static str,
    /// How long the regular expression is that stands for it; costs are counted from it.
    pub(crate) regex_size: u64,
    faults: fn(&str) -> Vec<String>,
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

static FORMATS: [Format; 13] = [
    Format {
        key: "dns1123Label",
        name: "DNS1123Label",
        regex_size: 30,
        faults: label,
    },
    Format {
        key: "dns1123Subdomain",
        name: "DNS1123Subdomain",
        regex_size: 60,
        faults: subdomain,
    },
    Format {
        key: "dns1035Label",
        name: "DNS1035Label",
        regex_size: 30,
        faults: label_1035,
    },
    Format {
        key: "qualifiedName",
        name: "QualifiedName",
        regex_size: 60,
        faults: qualified_name,
    },
    Format {
        key: "dns1123LabelPrefix",
        name: "DNS1123LabelPrefix",
        regex_size: 30,
        faults: |text| label(&masked(text)),
    },
    Format {
        key: "dns1123SubdomainPrefix",
        name: "DNS1123SubdomainPrefix",
        regex_size: 60,
        faults: |text| subdomain(&masked(text)),
    },
    Format {
        key: "dns1035LabelPrefix",
        name: "DNS1035LabelPrefix",
        regex_size: 30,
        faults: |text| label_1035(&masked(text)),
    },
    Format {
        key: "labelValue",
        name: "LabelValue",
        regex_size: 40,
        faults: label_value,
    },
    Format {
        key: "uri",
        name: "URI",
        regex_size: 1103,
        faults: uri,
    },
    Format {
        key: "uuid",
        name: "uuid",
        regex_size: 95,
        faults: |text| faults((!is_uuid(text)).then_some("does not match the UUID format")),
    },
    Format {
        key: "byte",
        name: "byte",
        regex_size: 84,
        faults: |text| faults((!is_base64(text)).then_some("invalid base64")),
    },
    Format {
        key: "date",
        name: "date",
        regex_size: 92,
        faults: |text| faults(time::parse_date(text).is_none().then_some("invalid date")),
    },
    Format {
        key: "datetime",
        name: "datetime",
        regex_size: 92,
        faults: |text| {
            let is_invalid = text.is_empty() || time::parse_date_time(text).is_none();
            faults(is_invalid.then_some("invalid datetime"))
        },
    },
];

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "validate" => |name, args| match args {
            [Value::Opaque(OpaqueValue::Format(format)), Value::String(text)] => {
                let faults = (format.faults)(text);
                Ok(Value::optional(if faults.is_empty() {
                    None
                } else {
                    Some(Value::texts(faults))
                }))
            }
            _ => no_overload(name, args),
        },
        "format.named" => |name, args| match args {
            [Value::String(key)] => {
                let found = FORMATS.iter().find(|format| *format.key == **key);
                Ok(Value::optional(
                    found.map(|format| Value::Opaque(OpaqueValue::Format(format))),
                ))
            }
            _ => no_overload(name, args),
        },
        _ if name
            .strip_prefix("format.")
            .is_some_and(|key| FORMATS.iter().any(|format| format.key == key)) =>
        {
            constant
        }
        _ => return None,
    })
}

fn constant<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let key = name.strip_prefix("format.").unwrap_or(name);
    match FORMATS.iter().find(|format| format.key == key) {
        Some(format) => Ok(Value::Opaque(OpaqueValue::Format(format))),
        None => no_overload(name, args),
    }
}

fn faults(fault: Option<&str>) -> Vec<String> {
    fault.map(str::to_owned).into_iter().collect()
}

/// What is generated after a prefix ends it.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut end = rest.len() - 1;
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            format!("{}a", &rest[..end])
        }
        _ => text.to_owned(),
    }
}

fn form(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!(
        "{rule} (e.g. {}regex used for validation is '{pattern}')",
        examples.join(" or ")
    )
}

fn length_faults(text: &str, max: usize, unit: &str) -> Vec<String> {
    if text.len() <= max {
        return Vec::new();
    }
    vec![format!("must be no more than {max} {unit}")]
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether a text begins and ends with some bytes and has others inside.
fn framed(text: &str, ends: fn(u8) -> bool, middle: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| ends(*b))
        && bytes.last().is_some_and(|b| ends(*b))
        && bytes.iter().all(|b| middle(*b))
}

/// Whether a text is a label of a domain name.
pub(super) fn is_label(text: &str) -> bool {
    text.len() <= 63 && framed(text, lower, |b| lower(b) || b == b'-')
}

/// Whether a text is a domain name.
pub(super) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253
        && text
            .split('.')
            .all(|part| framed(part, lower, |b| lower(b) || b == b'-'))
}

fn label(text: &str) -> Vec<String> {
    let mut faults = length_faults(text, 63, "characters");
    if !framed(text, lower, |b| lower(b) || b == b'-') {
        faults.push(form(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character",
            LABEL,
            &["my-name", "123-abc"],
        ));
    }
    faults
}

fn subdomain(text: &str) -> Vec<String> {
    let mut faults = length_faults(text, 253, "characters");
    if !text
        .split('.')
        .all(|part| framed(part, lower, |b| lower(b) || b == b'-'))
    {
        faults.push(form(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            &format!("{LABEL}(\\.{LABEL})*"),
            &["example.com"],
        ));
    }
    faults
}

fn label_1035(text: &str) -> Vec<String> {
    let mut faults = length_faults(text, 63, "characters");
    let fine =
        framed(text, lower, |b| lower(b) || b == b'-') && text.starts_with(|c: char| c.is_ascii_lowercase());
    if !fine {
        faults.push(form(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    faults
}

fn is_name(text: &str) -> bool {
    framed(
        text,
        |b| b.is_ascii_alphanumeric(),
        |b| b.is_ascii_alphanumeric() || b"-_.".contains(&b),
    )
}

fn qualified_name(text: &str) -> Vec<String> {
    let rule = form(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        NAME,
        &["MyName", "my.name", "123-abc"],
    );
    let mut faults = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            faults.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            faults.extend(
                subdomain(prefix)
                    .into_iter()
                    .map(|message| format!("prefix part {message}")),
            );
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        faults.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        faults.push(format!("name part {rule}"));
    }
    faults
}

fn label_value(text: &str) -> Vec<String> {
    let mut faults = length_faults(text, 63, "bytes");
    if !text.is_empty() && !is_name(text) {
        faults.push(form(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            &format!("({NAME})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    faults
}

fn uri(text: &str) -> Vec<String> {
    match Url::parse(text) {
        Ok(_) => Vec::new(),
        Err(why) => vec![format!("parse {text:?}: {why}")],
    }
}

fn is_uuid(text: &str) -> bool {
    let hex: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
    let dashes: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
    let placed = if dashes.is_empty() {
        true
    } else {
        let groups: Vec<usize> = text.split('-').map(str::len).collect();
        let mut rest = &[8, 4, 4, 4, 12][..];
        // Each dash may be left out.
        groups.iter().all(|group| {
            let mut sum = 0;
            while sum < *group && !rest.is_empty() {
                sum += rest[0];
                rest = &rest[1..];
            }
            sum == *group && sum > 0
        })
    };
    hex.len() == 32 && placed && hex.iter().all(u8::is_ascii_hexdigit)
}
