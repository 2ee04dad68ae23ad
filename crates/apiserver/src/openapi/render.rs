//! Renders OpenAPI paths as JSON.

use serde_json::{Map, Value, json};

use super::{
    definition::{Definitions, OpenApiVersion},
    leaf,
    operation::{BodySchema, OpenApiOperation, OpenApiPath, ResponseSchema},
    parameter::OpenApiParameter,
};

/// Writes a path. What all its operations take stands beside them, once.
pub(super) fn path(path: &OpenApiPath, definitions: &mut Definitions) -> Value {
    let dialect = definitions.dialect();
    let shared: Vec<OpenApiParameter> = match path.operations.split_first() {
        Some((first, rest)) => first
            .parameters
            .iter()
            .filter(|parameter| rest.iter().all(|other| other.parameters.contains(parameter)))
            .cloned()
            .collect(),
        None => Vec::new(),
    };
    let mut item = Map::new();
    for operation in &path.operations {
        let own = operation
            .parameters
            .iter()
            .filter(|parameter| !shared.contains(parameter));
        let own: Vec<_> = own.map(|parameter| parameter.render(dialect)).collect();
        let rendered = match dialect {
            OpenApiVersion::V2 => version_2(operation, own, definitions),
            OpenApiVersion::V3 => version_3(operation, own, definitions),
        };
        item.insert(operation.method.to_owned(), rendered);
    }
    if !shared.is_empty() {
        let shared: Vec<_> = shared.iter().map(|parameter| parameter.render(dialect)).collect();
        item.insert("parameters".to_owned(), Value::Array(shared));
    }
    Value::Object(item)
}

/// What both versions say in the same way.
fn shared(operation: &OpenApiOperation, parameters: Vec<Value>) -> Value {
    let mut rendered = json!({
        "description": operation.description,
        "operationId": operation.id,
        "tags": [operation.tag],
    });
    if !parameters.is_empty() {
        rendered["parameters"] = Value::Array(parameters);
    }
    if let Some(action) = operation.action {
        rendered["x-kubernetes-action"] = json!(action);
    }
    if let Some([group, version, kind]) = &operation.about {
        rendered["x-kubernetes-group-version-kind"] =
            json!({"group": group, "version": version, "kind": kind});
    }
    rendered
}

fn version_2(
    operation: &OpenApiOperation,
    mut parameters: Vec<Value>,
    definitions: &mut Definitions,
) -> Value {
    if let Some((schema, required)) = body(operation, definitions) {
        let mut parameter = json!({"name": "body", "in": "body", "schema": schema});
        if required {
            parameter["required"] = json!(true);
        }
        parameters.insert(0, parameter);
    }
    let mut rendered = shared(operation, parameters);
    rendered["consumes"] = json!(operation.consumes);
    rendered["produces"] = json!(operation.produces);
    rendered["schemes"] = json!(["https"]);
    rendered["responses"] = responses(operation, |answer| {
        answer["schema"] = shown(&operation.answer, definitions);
    });
    rendered
}

fn version_3(operation: &OpenApiOperation, parameters: Vec<Value>, definitions: &mut Definitions) -> Value {
    let mut rendered = shared(operation, parameters);
    if let Some((schema, required)) = body(operation, definitions) {
        rendered["requestBody"] = json!({"content": content(operation.consumes, &schema)});
        if required {
            rendered["requestBody"]["required"] = json!(true);
        }
    }
    rendered["responses"] = responses(operation, |answer| {
        let schema = shown(&operation.answer, definitions);
        answer["content"] = content(operation.produces, &schema);
    });
    rendered
}

fn responses(operation: &OpenApiOperation, mut fill: impl FnMut(&mut Value)) -> Value {
    let mut responses = Map::new();
    for code in operation.codes {
        let description = match code {
            201 => "Created",
            202 => "Accepted",
            _ => "OK",
        };
        let mut answer = json!({"description": description});
        fill(&mut answer);
        responses.insert(code.to_string(), answer);
    }
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    Value::Object(responses)
}

fn content(types: &[&str], schema: &Value) -> Value {
    let entries = types
        .iter()
        .map(|media| ((*media).to_owned(), json!({"schema": schema})));
    Value::Object(entries.collect())
}

/// The schema of the body, and whether it must be there.
fn body(operation: &OpenApiOperation, definitions: &mut Definitions) -> Option<(Value, bool)> {
    match &operation.body {
        BodySchema::None => None,
        BodySchema::Object(of) => Some((definitions.refer_struct(*of), true)),
        BodySchema::Custom(name) => Some((definitions.refer_custom(name), true)),
        BodySchema::DeleteOptions => Some((definitions.refer_meta("DeleteOptions"), false)),
        BodySchema::Patch => Some((definitions.refer_leaf(leaf::PATCH), true)),
    }
}

fn shown(answer: &ResponseSchema, definitions: &mut Definitions) -> Value {
    match answer {
        ResponseSchema::Object(of) => definitions.refer_struct(*of),
        ResponseSchema::Custom(name) => definitions.refer_custom(name),
        ResponseSchema::Meta(kind) => definitions.refer_meta(kind),
        ResponseSchema::Leaf(name) => definitions.refer_leaf(name),
        ResponseSchema::Text => json!({"type": "string"}),
    }
}
