//! What `/metrics` shows.

use prometheus_client::{encoding::text::encode, registry::Registry};

/// The figures of a registry in Prometheus' text format, version 0.0.4: the one that every scraper reads.
///
/// The library writes `OpenMetrics`, in which a counter's family is called by another name than its samples. Upstream's
/// programs do not speak that unless asked to, and dashboards look for the names with `_total`.
pub fn text(registry: &Registry) -> String {
    let mut open = String::new();
    encode(&mut open, registry).expect("a text can always be longer");
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            // Under which name it stands is known with the type.
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

/// Bounds of buckets are numbers in a text, and upstream writes them as `5` and `1e-08`.
fn push_sample(text: &mut String, line: &str) {
    let bound = line.split_once(",le=\"").and_then(|(before, rest)| {
        let (bound, after) = rest.split_once('"')?;
        Some((before, bound, after))
    });
    let Some((before, bound, after)) = bound else {
        text.extend([line, "\n"]);
        return;
    };
    text.extend([before, ",le=\""]);
    match bound.split_once("e-") {
        Some((digits, power)) if power.len() == 1 => text.extend([digits, "e-0", power]),
        _ => text.push_str(bound.strip_suffix(".0").unwrap_or(bound)),
    }
    text.extend(["\"", after, "\n"]);
}
