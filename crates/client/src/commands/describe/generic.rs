//! Description of an object of any kind: all fields with readable labels.

use serde_json::{Map, Value};

use super::sheet::{DescriptionSheet, shown, text};

/// Fields of the metadata that are left out or printed at the top.
const HIDDEN: [&str; 5] = ["annotations", "labels", "managedFields", "name", "namespace"];

/// Fields of Secrets of which only the size is printed.
const SECRET_FIELDS: [&str; 2] = ["data", "stringData"];

pub(super) fn describe(sheet: &mut DescriptionSheet, object: &Value) {
    describe_metadata(sheet, object);
    let is_secret = object["kind"] == "Secret" && object["apiVersion"] == "v1";
    sheet.line_if_set("API Version", &object["apiVersion"]);
    sheet.line_if_set("Kind", &object["kind"]);
    for (name, value) in object.as_object().into_iter().flatten() {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => sheet.group("Metadata", |inner| {
                let fields = value.as_object().into_iter().flatten();
                for (name, value) in fields.filter(|(name, _)| !HIDDEN.contains(&name.as_str())) {
                    add_field(inner, &label(name), value);
                }
            }),
            name if is_secret && SECRET_FIELDS.contains(&name) => sheet.group(&label(name), |inner| {
                for (key, value) in value.as_object().into_iter().flatten() {
                    // Base64 has four letters for three bytes.
                    let letters = value.as_str().unwrap_or_default().trim_end_matches('=').len();
                    inner.line(key, format!("{} bytes", letters * 3 / 4));
                }
            }),
            name => add_field(sheet, &label(name), value),
        }
    }
}

/// Adds name, namespace, labels and annotations.
pub(super) fn describe_metadata(sheet: &mut DescriptionSheet, object: &Value) {
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

fn add_field(sheet: &mut DescriptionSheet, name: &str, value: &Value) {
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
        Value::String(text) if text.contains('\n') => {
            sheet.lines(name, text.lines().map(str::to_owned).collect());
        }
        other => sheet.line(name, shown(other)),
    }
}

fn add_fields(sheet: &mut DescriptionSheet, fields: &Map<String, Value>) {
    for (name, value) in fields {
        add_field(sheet, &label(name), value);
    }
}

/// Turns `resourceVersion` into `Resource Version`.
pub(super) fn label(name: &str) -> String {
    // Keys of labels and annotations are printed unchanged.
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
    fn splits_camel_case_into_labels() {
        for (name, expected) in [
            ("resourceVersion", "Resource Version"),
            ("clusterIP", "Cluster IP"),
            ("uid", "Uid"),
            ("app.kubernetes.io/name", "app.kubernetes.io/name"),
        ] {
            assert_eq!(label(name), expected);
        }
    }

    #[test]
    fn prints_only_the_size_of_secret_values() {
        let mut sheet = DescriptionSheet::default();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"key": "c2VjcmV0"}});
        describe(&mut sheet, &secret);
        let text = sheet.text();
        assert!(
            text.contains("key:  6 bytes") && !text.contains("c2VjcmV0"),
            "{text}"
        );
    }
}
