//! The text format of `/metrics`.

use std::borrow::Cow;

use prometheus_client::{encoding::text::encode, registry::Registry};

/// Encodes a registry in Prometheus' text format, version 0.0.4, which every scraper reads.
///
/// The library encodes `OpenMetrics`, where the name of a counter family lacks the suffix `_total` of its samples. Kubernetes
/// components serve the older format, and dashboards look for names with `_total`.
pub fn encode_text(registry: &Registry) -> String {
    let mut open = String::new();
    encode(&mut open, registry).expect("writing to a String cannot fail");
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            // The name depends on the type, which is on the next line.
            help = rest.split_once(' ').map(|(_, help)| help);
            continue;
        }
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) else {
            push_sample(&mut text, line);
            continue;
        };
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let kind = match kind {
            "info" => "gauge",
            "unknown" => "untyped",
            kind => kind,
        };
        for (word, value) in [("HELP", help.take()), ("TYPE", Some(kind))] {
            for part in value
                .map(|value| ["# ", word, " ", name, suffix, " ", value, "\n"])
                .iter()
                .flatten()
            {
                text.push_str(part);
            }
        }
    }
    text
}

/// The library writes the `le` label first and as `5.0` or `1e-8`; the Go client writes it last and as `5` or `1e-08`.
fn push_sample(text: &mut String, line: &str) {
    let bucket = line.split_once("_bucket{le=\"").and_then(|(name, rest)| {
        let (bound, rest) = rest.split_once('"')?;
        let (labels, count) = rest.split_once('}')?;
        Some((name, bound, labels.trim_start_matches(','), count))
    });
    let Some((name, bound, labels, count)) = bucket else {
        text.extend([line, "\n"]);
        return;
    };
    let comma = if labels.is_empty() { "" } else { "," };
    text.extend([
        name,
        "_bucket{",
        labels,
        comma,
        "le=\"",
        &format_bound(bound),
        "\"}",
        count,
        "\n",
    ]);
}

fn format_bound(text: &str) -> Cow<'_, str> {
    match text.parse::<f64>() {
        Ok(bound) if bound.is_finite() && bound >= 1e-4 => Cow::Owned(bound.to_string()),
        Ok(bound) if bound.is_finite() => {
            let digits = format!("{bound:e}");
            Cow::Owned(match digits.split_once("e-") {
                Some((digits, power)) => format!("{digits}e-{power:0>2}"),
                None => digits,
            })
        }
        _ => Cow::Borrowed(text),
    }
}
