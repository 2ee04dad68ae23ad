//! Any object: its names, and then every field under a readable label.

use serde_json::{Map, Value};

use super::sheet::{Sheet, shown, text};

/// Fields of metadata that say nothing to people, or are shown at the top.
const HIDDEN: [&str; 5] = ["annotations", "labels", "managedFields", "name", "namespace"];

/// Secrets whose values are told by their size alone.
const SIZED: [&str; 2] = ["data", "stringData"];

pub(super) fn describe(sheet: &mut Sheet, object: &Value) {
    heading(sheet, object);
    let is_secret = object["kind"] == "Secret" && object["apiVersion"] == "v1";
    sheet.some("API Version", &object["apiVersion"]);
    sheet.some("Kind", &object["kind"]);
    for (name, value) in object.as_object().into_iter().flatten() {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => sheet.group("Metadata", |inner| {
                let fields = value.as_object().into_iter().flatten();
                for (name, value) in fields.filter(|(name, _)| !HIDDEN.contains(&name.as_str())) {
                    add(inner, &label(name), value);
                }
            }),
            name if is_secret && SIZED.contains(&name) => sheet.group(&label(name), |inner| {
                for (key, value) in value.as_object().into_iter().flatten() {
                    // Base 64 has four letters for three bytes.
                    let letters = value.as_str().unwrap_or_default().trim_end_matches('=').len();
                    inner.line(key, format!("{} bytes", letters * 3 / 4));
                }
            }),
            name => add(sheet, &label(name), value),
        }
    }
}

/// Name, namespace, labels and annotations.
pub(super) fn heading(sheet: &mut Sheet, object: &Value) {
    let metadata = &object["metadata"];
    sheet.line("Name", text(&metadata["name"]));
    sheet.line("Namespace", metadata["namespace"].as_str().unwrap_or_default());
    sheet.pairs("Labels", &metadata["labels"], "=");
    let mut annotations = metadata["annotations"].clone();
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    sheet.pairs("Annotations", &annotations, ": ");
}

fn add(sheet: &mut Sheet, name: &str, value: &Value) {
    match value {
        Value::Object(fields) => sheet.group(name, |inner| add_fields(inner, fields)),
        Value::Array(items) if items.iter().any(Value::is_object) => sheet.group(name, |inner| {
            for item in items {
                match item {
                    Value::Object(fields) => add_fields(inner, fields),
                    other => inner.line("", shown(other)),
                }
            }
        }),
        Value::Array(items) => sheet.lines(name, items.iter().map(shown).collect()),
        Value::String(words) if words.contains('\n') => {
            sheet.lines(name, words.lines().map(str::to_owned).collect());
        }
        other => sheet.line(name, shown(other)),
    }
}

fn add_fields(sheet: &mut Sheet, fields: &Map<String, Value>) {
    for (name, value) in fields {
        add(sheet, &label(name), value);
    }
}

/// `resourceVersion` as `Resource Version`.
pub(super) fn label(name: &str) -> String {
    // Keys that users choose stay as they are.
    if name.contains(['.', '/', '-', '_', ' ']) {
        return name.to_owned();
    }
    let mut label = String::new();
    let mut was_small = false;
    for (at, letter) in name.chars().enumerate() {
        if at == 0 {
            label.extend(letter.to_uppercase());
        } else {
            if letter.is_uppercase() && was_small {
                label.push(' ');
            }
            label.push(letter);
        }
        was_small = letter.is_lowercase() || letter.is_ascii_digit();
    }
    label
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_words() {
        for (name, words) in [
            ("resourceVersion", "Resource Version"),
            ("clusterIP", "Cluster IP"),
            ("uid", "Uid"),
            ("app.kubernetes.io/name", "app.kubernetes.io/name"),
        ] {
            assert_eq!(label(name), words);
        }
    }

    #[test]
    fn values_of_secrets_are_told_by_their_size() {
        let mut sheet = Sheet::default();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"key": "c2VjcmV0"}});
        describe(&mut sheet, &secret);
        let text = sheet.text();
        assert!(
            text.contains("key:  6 bytes") && !text.contains("c2VjcmV0"),
            "{text}"
        );
    }
}
