//! Values as YAML and JSON.

use crate::ConfigKey;

/// Words that YAML does not read as strings.
const YAML_KEYWORDS: [&str; 9] = ["", "~", "null", "yes", "no", "on", "off", "y", "n"];

impl ConfigKey {
    /// Values as YAML, on one line.
    pub(crate) fn yaml(&self, values: &[String]) -> String {
        if self.is_list() {
            let items: Vec<_> = values.iter().map(|value| scalar(value)).collect();
            return format!("[{}]", items.join(", "));
        }
        scalar(&values.join(","))
    }

    /// Values as JSON.
    pub(crate) fn json(&self, values: &[String]) -> serde_json::Value {
        let typed = |text: &str| match text.parse::<u64>() {
            Ok(number) if number.to_string() == text => number.into(),
            _ if self.is_switch() => (text == "true").into(),
            _ => text.into(),
        };
        if self.is_list() {
            return values.iter().map(|value| typed(value)).collect();
        }
        typed(&values.join(","))
    }
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
