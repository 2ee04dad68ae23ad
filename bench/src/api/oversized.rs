//! Objects with one list or map that is far too long: one for every list and map of every kind, made from what the server publishes of its
//! kinds in `OpenAPI` v3.

use serde_json::{Map, Value, json};

/// How many entries the list or map has.
const ENTRIES: usize = 10_000;
/// Entries are added until the object has about so many bytes, for more is not read.
const BYTES: usize = 2_900_000;
/// How deep a list may be in lists. Types that contain themselves never end.
const DEPTH: usize = 12;
/// Fields that entries of lists get although they are not required: most lists are keyed by one of these.
const USUAL_KEYS: [&str; 10] = [
    "name",
    "key",
    "uid",
    "kind",
    "apiVersion",
    "path",
    "mountPath",
    "type",
    "containerPort",
    "port",
];

/// What to send.
pub(super) struct Oversized {
    /// The kind, and the field of the list or map in it.
    pub(super) label: String,
    /// Where objects of the kind are created.
    pub(super) path: String,
    pub(super) body: String,
}

/// A list or map in a type.
struct CollectionField {
    steps: Vec<SchemaStep>,
    /// The type of its entries.
    entry: Value,
    is_map: bool,
}

/// One step from the root of an object.
#[derive(Clone)]
enum SchemaStep {
    Field(String),
    /// The only entry of a list.
    Item,
    /// The only entry of a map.
    Entry,
}

/// The types of a document.
struct DocumentTypes<'d>(&'d Map<String, Value>);

/// All of a document that the server publishes for a group and version. `is_chosen` selects the kinds.
pub(super) fn of_document(document: &Value, is_chosen: impl Fn(&str) -> bool) -> Vec<Oversized> {
    let nothing = Map::new();
    let types = DocumentTypes(document["components"]["schemas"].as_object().unwrap_or(&nothing));
    let paths = document["paths"].as_object().unwrap_or(&nothing);
    let mut all = Vec::new();
    for (path, operations) in paths {
        let post = &operations["post"];
        let content = post["requestBody"]["content"].as_object().unwrap_or(&nothing);
        let Some(schema) = content.values().next().map(|content| &content["schema"]) else {
            continue;
        };
        let kind = post["x-kubernetes-group-version-kind"]["kind"]
            .as_str()
            .unwrap_or_default();
        if path.contains("{name}") || kind.is_empty() || !is_chosen(kind) {
            continue;
        }
        let mut fields = Vec::new();
        types.find_collection_fields(schema, &mut Vec::new(), &mut Vec::new(), &mut fields);
        for field in fields {
            let mut object = types.sample(schema, 0, 0);
            object["kind"] = kind.into();
            object["apiVersion"] = api_version(post).into();
            object["metadata"]["name"] = "oversized".into();
            let entries = types.entries(&field);
            put(&mut object, &field.steps, entries);
            all.push(Oversized {
                label: format!("{kind} {}", text(&field.steps)),
                path: path.replace("{namespace}", "default"),
                body: object.to_string(),
            });
        }
    }
    all
}

fn api_version(operation: &Value) -> String {
    let kind = &operation["x-kubernetes-group-version-kind"];
    let version = kind["version"].as_str().unwrap_or_default();
    match kind["group"].as_str().unwrap_or_default() {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

fn text(steps: &[SchemaStep]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            SchemaStep::Field(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            SchemaStep::Item => text.push_str("[]"),
            SchemaStep::Entry => text.push_str("{}"),
        }
    }
    text
}

/// Sets a value in an object, and makes what is on the way to it.
fn put(object: &mut Value, steps: &[SchemaStep], value: Value) {
    let mut at = object;
    for step in steps {
        at = match step {
            SchemaStep::Field(name) => &mut at[name.as_str()],
            SchemaStep::Entry => &mut at["a"],
            SchemaStep::Item => {
                if !at.is_array() || at.as_array().is_some_and(Vec::is_empty) {
                    *at = json!([{}]);
                }
                &mut at[0]
            }
        };
    }
    *at = value;
}

// --- DocumentTypes ---

impl DocumentTypes<'_> {
    /// The type that a reference means, with the name of it; the type itself if it is none.
    fn resolve<'s>(&'s self, schema: &'s Value) -> (&'s str, &'s Value) {
        let reference = schema["$ref"]
            .as_str()
            .or_else(|| schema["allOf"][0]["$ref"].as_str());
        let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) else {
            return ("", schema);
        };
        (name, self.0.get(name).unwrap_or(schema))
    }

    /// Finds all lists and maps in a type, also those in entries of others.
    fn find_collection_fields(
        &self,
        schema: &Value,
        steps: &mut Vec<SchemaStep>,
        within: &mut Vec<String>,
        found: &mut Vec<CollectionField>,
    ) {
        let (name, resolved) = self.resolve(schema);
        if steps.len() > DEPTH || (!name.is_empty() && within.iter().any(|known| known == name)) {
            return;
        }
        within.push(name.to_owned());
        for (field, schema) in resolved["properties"].as_object().into_iter().flatten() {
            steps.push(SchemaStep::Field(field.clone()));
            self.find_collection_fields(schema, steps, within, found);
            steps.pop();
        }
        for (part, step, is_map) in [
            ("items", SchemaStep::Item, false),
            ("additionalProperties", SchemaStep::Entry, true),
        ] {
            let entry = &resolved[part];
            if entry.is_object() {
                found.push(CollectionField {
                    steps: steps.clone(),
                    entry: entry.clone(),
                    is_map,
                });
                steps.push(step);
                self.find_collection_fields(entry, steps, within, found);
                steps.pop();
            }
        }
        within.pop();
    }

    /// Ten thousand entries of a list or map, or as many as fit.
    fn entries(&self, field: &CollectionField) -> Value {
        let mut bytes = 0;
        let mut samples = (0..ENTRIES).map_while(|number| {
            let sample = self.sample(&field.entry, number, 0);
            bytes += sample.to_string().len() + 8;
            (bytes < BYTES).then_some((number, sample))
        });
        if field.is_map {
            samples
                .map(|(number, sample)| (format!("k{number}"), sample))
                .collect()
        } else {
            Value::Array(samples.by_ref().map(|(_, sample)| sample).collect())
        }
    }

    /// A value of a type with what is required in it; another one for each number.
    fn sample(&self, schema: &Value, number: usize, depth: usize) -> Value {
        let (name, resolved) = self.resolve(schema);
        match name.rsplit('.').next().unwrap_or_default() {
            "Quantity" => return "1".into(),
            "IntOrString" => return number.into(),
            "Time" => return "2026-01-01T00:00:00Z".into(),
            "MicroTime" => return "2026-01-01T00:00:00.000000Z".into(),
            "Duration" => return "1s".into(),
            "RawExtension" | "FieldsV1" | "JSON" => return json!({}),
            _ => {}
        }
        match resolved["type"].as_str().unwrap_or_default() {
            "string" => text_sample(resolved, number),
            "integer" | "number" => (number % 60_000).into(),
            "boolean" => false.into(),
            "array" => Value::Array(Vec::new()),
            _ if depth > DEPTH => json!({}),
            _ => self.object_sample(resolved, number, depth),
        }
    }

    fn object_sample(&self, schema: &Value, number: usize, depth: usize) -> Value {
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let properties = schema["properties"].as_object().into_iter().flatten();
        properties
            .filter(|(name, property)| {
                let is_key =
                    depth == 0 && USUAL_KEYS.contains(&name.as_str()) && property["type"].is_string();
                required.contains(&name.as_str()) || is_key
            })
            .map(|(name, property)| (name.clone(), self.sample(property, number, depth + 1)))
            .collect()
    }
}

fn text_sample(schema: &Value, number: usize) -> Value {
    if let Some(first) = schema["enum"]
        .as_array()
        .and_then(|names| names.iter().find(|word| *word != ""))
    {
        return first.clone();
    }
    match schema["format"].as_str().unwrap_or_default() {
        "byte" => "YQ==".into(),
        "date-time" => "2026-01-01T00:00:00Z".into(),
        _ => format!("v{number}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_and_map_of_a_kind_gets_an_object() {
        let document = json!({
            "paths": {
                "/api/v1/namespaces/{namespace}/widgets": {"post": {
                    "x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Widget"},
                    "requestBody": {"content": {"*/*": {"schema": {"$ref": "#/components/schemas/Widget"}}}},
                }},
                "/api/v1/namespaces/{namespace}/widgets/{name}/part": {"post": {
                    "x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Widget"},
                    "requestBody": {"content": {"*/*": {"schema": {"$ref": "#/components/schemas/Widget"}}}},
                }},
            },
            "components": {"schemas": {"Widget": {"type": "object", "properties": {
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "children": {"type": "array", "items": {"type": "object", "required": ["size"], "properties": {
                    "name": {"type": "string"},
                    "size": {"type": "integer"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "again": {"$ref": "#/components/schemas/Widget"},
                }}},
            }}}},
        });
        let all = of_document(&document, |_| true);
        let labels: Vec<_> = all.iter().map(|one| one.label.as_str()).collect();
        assert_eq!(
            labels,
            ["Widget children", "Widget children[].tags", "Widget labels"]
        );
        let bodies: Vec<Value> = all
            .iter()
            .map(|one| serde_json::from_str(&one.body).unwrap())
            .collect();
        assert_eq!(bodies[0]["children"].as_array().unwrap().len(), ENTRIES);
        assert_eq!(bodies[0]["children"][7], json!({"name": "v7", "size": 7}));
        assert_eq!(
            bodies[1]["children"][0]["tags"].as_array().unwrap().len(),
            ENTRIES
        );
        assert_eq!(bodies[2]["labels"].as_object().unwrap().len(), ENTRIES);
        assert_eq!(all[0].path, "/api/v1/namespaces/default/widgets");
        assert!(of_document(&document, |kind| kind != "Widget").is_empty());
    }
}
