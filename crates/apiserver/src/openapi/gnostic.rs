//! Version 2 as protobuf: the message `openapi.v2.Document` of gnostic, which clients in Go read.
//!
//! Each part of the document is written from its JSON form. Fields that are not written (there are many) do not
//! occur in our documents.

use serde_json::{Map, Value};

/// The message, built field by field. Paths and definitions are nested messages and are collected separately.
// upstream: vendor/k8s.io/kube-openapi/pkg/handler/handler.go ToProtoBinary
pub(super) struct GnosticDocument {
    head: Vec<u8>,
    paths: Vec<u8>,
    definitions: Vec<u8>,
}

/// The number of a method among the fields of a path.
const METHODS: [(&str, u32); 7] = [
    ("get", 2),
    ("put", 3),
    ("post", 4),
    ("delete", 5),
    ("options", 6),
    ("head", 7),
    ("patch", 8),
];

/// How deep a schema may be; ours have three or four levels.
const DEPTH: usize = 16;

// --- GnosticDocument ---

impl GnosticDocument {
    /// Begins with what the document is.
    pub(super) fn new(info: &Value) -> Self {
        let mut head = Vec::new();
        text(&mut head, 1, Some(&Value::from("2.0")));
        message(&mut head, 2, |out| {
            text(out, 1, info.get("title"));
            text(out, 2, info.get("version"));
        });
        Self {
            head,
            paths: Vec::new(),
            definitions: Vec::new(),
        }
    }

    /// Adds a path.
    pub(super) fn path(&mut self, name: &str, item: &Value) {
        named(&mut self.paths, 2, name, |out| write_path(out, item));
    }

    /// Adds a definition.
    pub(super) fn definition(&mut self, name: &str, definition: &Value) {
        named(&mut self.definitions, 1, name, |out| {
            write_schema(out, definition, DEPTH);
        });
    }

    /// Ends with how clients say who they are.
    pub(super) fn finish(self, security: &Value) -> Vec<u8> {
        let mut out = self.head;
        bytes(&mut out, 8, &self.paths);
        bytes(&mut out, 9, &self.definitions);
        for (name, scheme) in fields(security) {
            message(&mut out, 12, |out| named(out, 1, name, |_| {}));
            message(&mut out, 13, |out| {
                named(out, 1, name, |out| {
                    message(out, 2, |out| {
                        for (number, field) in [(1, "type"), (2, "name"), (3, "in"), (4, "description")] {
                            text(out, number, scheme.get(field));
                        }
                    });
                });
            });
        }
        out
    }
}

fn write_path(out: &mut Vec<u8>, item: &Value) {
    for (method, number) in METHODS {
        if let Some(operation) = item.get(method) {
            message(out, number, |out| write_operation(out, operation));
        }
    }
    for parameter in list(item, "parameters") {
        write_parameter(out, 9, parameter);
    }
}

fn write_operation(out: &mut Vec<u8>, operation: &Value) {
    texts(out, 1, operation, "tags");
    text(out, 3, operation.get("description"));
    text(out, 5, operation.get("operationId"));
    texts(out, 6, operation, "produces");
    texts(out, 7, operation, "consumes");
    for parameter in list(operation, "parameters") {
        write_parameter(out, 8, parameter);
    }
    message(out, 9, |out| {
        for (code, answer) in operation.get("responses").into_iter().flat_map(fields) {
            named(out, 1, code, |out| {
                message(out, 1, |out| {
                    text(out, 1, answer.get("description"));
                    if let Some(schema) = answer.get("schema") {
                        message(out, 2, |out| {
                            message(out, 1, |out| write_schema(out, schema, DEPTH));
                        });
                    }
                });
            });
        }
    });
    texts(out, 10, operation, "schemes");
    extensions(out, 13, operation);
}

/// A parameter, in the three messages around it.
fn write_parameter(out: &mut Vec<u8>, number: u32, parameter: &Value) {
    let location = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
    message(out, number, |out| {
        message(out, 1, |out| match location {
            "body" => message(out, 1, |out| {
                text(out, 2, parameter.get("name"));
                text(out, 3, parameter.get("in"));
                flag(out, 4, parameter.get("required"));
                if let Some(schema) = parameter.get("schema") {
                    message(out, 5, |out| write_schema(out, schema, DEPTH));
                }
            }),
            _ => message(out, 2, |out| {
                let (sub, kind, unique) = if location == "path" {
                    (4, 5, 19)
                } else {
                    (3, 6, 20)
                };
                message(out, sub, |out| {
                    flag(out, 1, parameter.get("required"));
                    text(out, 2, parameter.get("in"));
                    text(out, 3, parameter.get("description"));
                    text(out, 4, parameter.get("name"));
                    text(out, kind, parameter.get("type"));
                    flag(out, unique, parameter.get("uniqueItems"));
                });
            }),
        });
    });
}

fn write_schema(out: &mut Vec<u8>, schema: &Value, depth: usize) {
    if depth == 0 {
        return;
    }
    text(out, 1, schema.get("$ref"));
    text(out, 2, schema.get("format"));
    text(out, 4, schema.get("description"));
    texts(out, 19, schema, "required");
    if let Some(values) = schema.get("additionalProperties") {
        message(out, 21, |out| {
            message(out, 1, |out| write_schema(out, values, depth - 1));
        });
    }
    if let Some(kind) = schema.get("type") {
        message(out, 22, |out| text(out, 1, Some(kind)));
    }
    if let Some(items) = schema.get("items") {
        message(out, 23, |out| {
            message(out, 1, |out| write_schema(out, items, depth - 1));
        });
    }
    if let Some(properties) = schema.get("properties") {
        message(out, 25, |out| {
            for (name, property) in fields(properties) {
                named(out, 1, name, |out| write_schema(out, property, depth - 1));
            }
        });
    }
    extensions(out, 31, schema);
}

/// What begins with `x-`: a name, and YAML. JSON is YAML.
fn extensions(out: &mut Vec<u8>, number: u32, value: &Value) {
    for (name, value) in fields(value).filter(|(name, _)| name.starts_with("x-")) {
        named(out, number, name, |out| {
            bytes(out, 2, value.to_string().as_bytes());
        });
    }
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// A message of a name and a value.
fn named(out: &mut Vec<u8>, number: u32, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    message(out, number, |out| {
        bytes(out, 1, name.as_bytes());
        message(out, 2, value);
    });
}

fn message(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    bytes(out, number, &inner);
}

fn texts(out: &mut Vec<u8>, number: u32, value: &Value, name: &str) {
    for item in list(value, name) {
        text(out, number, Some(item));
    }
}

fn text(out: &mut Vec<u8>, number: u32, value: Option<&Value>) {
    if let Some(value) = value.and_then(Value::as_str)
        && !value.is_empty()
    {
        bytes(out, number, value.as_bytes());
    }
}

fn flag(out: &mut Vec<u8>, number: u32, value: Option<&Value>) {
    if value == Some(&Value::Bool(true)) {
        varint(out, number << 3);
        out.push(1);
    }
}

fn bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    let length = u32::try_from(bytes.len()).expect("documents are far below four gigabytes");
    varint(out, length);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u32) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schema_field_numbers() {
        let mut out = Vec::new();
        write_schema(
            &mut out,
            &json!({"type": "object", "required": ["a"], "x-b": {"c": [1]}}),
            DEPTH,
        );
        let expected = [
            &[0x9a, 0x01, 1][..],
            b"a",
            &[0xb2, 0x01, 8, 0x0a, 6],
            b"object",
            &[0xfa, 0x01, 18, 0x0a, 3],
            b"x-b",
            &[0x12, 11, 0x12, 9],
            br#"{"c":[1]}"#,
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn parameter_location_is_encoded() {
        let mut query = Vec::new();
        write_parameter(
            &mut query,
            9,
            &json!({"name": "n", "in": "query", "type": "string"}),
        );
        // 9: ParametersItem, 1: Parameter, 2: NonBodyParameter, 3: QueryParameterSubSchema.
        assert_eq!(query[..8], [0x4a, 24, 0x0a, 22, 0x12, 20, 0x1a, 18]);
        let mut path = Vec::new();
        write_parameter(
            &mut path,
            9,
            &json!({"name": "n", "in": "path", "type": "string", "required": true}),
        );
        assert_eq!(path[6], 0x22);
    }
}
