//! Values of arguments: types, validation, YAML and JSON.

use std::error::Error;

use clap::{
    Arg, ArgAction, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::configured_value::ConfiguredValue;

/// Words that YAML does not read as strings.
const YAML_KEYWORDS: [&str; 9] = ["", "~", "null", "yes", "no", "on", "off", "y", "n"];

/// Whether an argument takes more than one value.
pub(super) fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Whether a file may contain a list for an argument. Some take one as comma-separated text.
pub(super) fn takes_list(arg: &Arg) -> bool {
    let names = arg.get_value_names().unwrap_or_default();
    is_list(arg) || names.iter().any(|name| ["LIST", "URLS"].contains(&name.as_str()))
}

/// Whether an argument is `true` or `false`.
pub(super) fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
        || arg
            .get_possible_values()
            .iter()
            .map(|value| value.get_name().to_owned())
            .eq(["true", "false"])
}

/// Why a value is invalid, if it is. A secret is not repeated.
pub(super) fn check_value(arg: &Arg, configured: &ConfiguredValue) -> Option<String> {
    let mut probe = Arg::new("value")
        .long("value")
        .action(arg.get_action().clone())
        .value_parser(arg.get_value_parser().clone())
        .require_equals(true);
    if let Some(delimiter) = arg.get_value_delimiter() {
        probe = probe.value_delimiter(delimiter);
    }
    let tried = Command::new("k3")
        .no_binary_name(true)
        .arg(probe)
        .try_get_matches_from(configured.values.iter().map(|value| format!("--value={value}")));
    let error = tried.err()?;
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let shown = configured.redacted();
    let why = match (error.kind(), error.source()) {
        (ErrorKind::InvalidValue, _) => match text(ContextKind::ValidValue) {
            Some(valid) => format!("{shown} is not one of {valid}"),
            None => format!("{shown} is not a value"),
        },
        // The message of a parser may contain the value.
        (_, Some(_)) if configured.key.is_secret => "is invalid".to_owned(),
        (_, Some(cause)) => format!("{shown}: {cause}"),
        (_, None) => format!("{shown} is not a value"),
    };
    Some(match text(ContextKind::SuggestedValue) {
        Some(meant) => format!("{why}; did you mean {meant}?"),
        None => why,
    })
}

/// The flag of an argument, with its dashes.
pub(super) fn flag(arg: &Arg) -> String {
    format!("--{}", arg.get_long().unwrap_or_default())
}

/// Command-line arguments that set values.
pub(super) fn to_arguments(arg: &Arg, values: &[String]) -> Vec<String> {
    let word = |value: &str| format!("{}={value}", flag(arg));
    if is_list(arg) {
        values.iter().map(|value| word(value)).collect()
    } else {
        vec![word(&values.join(","))]
    }
}

/// Values as YAML.
pub(super) fn yaml(arg: &Arg, values: &[String]) -> String {
    if is_list(arg) {
        let items: Vec<_> = values.iter().map(|value| scalar(value)).collect();
        return format!("[{}]", items.join(", "));
    }
    scalar(&values.join(","))
}

fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    let begins_plainly = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    // A colon is plain unless a space follows it, or it is the last one.
    let is_url = text.split(':').all(|part| part.chars().all(is_plain)) && !text.ends_with(':');
    if begins_plainly && is_url && !YAML_KEYWORDS.contains(&text.to_lowercase().as_str()) {
        return text.to_owned();
    }
    // What is a text in JSON is one in YAML.
    serde_json::Value::from(text).to_string()
}

/// Values as JSON.
pub(super) fn json(arg: &Arg, values: &[String]) -> serde_json::Value {
    let of = |text: &str| match text.parse::<u64>() {
        Ok(number) if number.to_string() == text => number.into(),
        _ if is_switch(arg) => (text == "true").into(),
        _ => text.into(),
    };
    if is_list(arg) {
        return values.iter().map(|value| of(value)).collect();
    }
    of(&values.join(","))
}
