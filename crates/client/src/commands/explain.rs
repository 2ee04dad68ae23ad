//! `k3 explain`: documentation of fields from the server's OpenAPI documents.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use crate::{
    api_resource::ApiResource, connection::ConnectFlags, error::ClientError, session::CommandSession,
};

/// Maximum characters of a line of a description.
const LINE_WIDTH: usize = 76;

/// Get documentation for a resource
#[derive(Debug, Args)]
pub struct ExplainFlags {
    /// Resource type with an optional field path: `pods`, `deployment.spec.template`
    #[arg(value_name = "TYPE[.FIELD...]")]
    what: String,

    /// Print the fields of the fields, without descriptions
    #[arg(long)]
    recursive: bool,

    /// API version to use, such as `apps/v1` [default: the preferred version]
    #[arg(long, value_name = "GROUP/VERSION")]
    api_version: Option<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

/// The OpenAPI v3 document of a group version.
struct OpenApiDocument {
    document: Value,
}

/// What is printed of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldDetail {
    /// The fields with their descriptions.
    Descriptions,
    /// Only the names and types, with the fields of the fields.
    AllLevels,
}

// --- ExplainFlags ---

impl ExplainFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        let (word, path) = self.split(session).await?;
        let mut resource = session
            .discovery
            .lock()
            .await
            .find_one(&session.api, &word)
            .await?;
        if let Some(version) = &self.api_version {
            let kind = resource.kind.clone();
            let found = session
                .discovery
                .lock()
                .await
                .find_kind(&session.api, version, &kind)
                .await?;
            resource = found.ok_or_else(|| {
                ClientError::new(format!("couldn't find resource for {version:?}, Kind={kind}"))
            })?;
        }
        let document = OpenApiDocument::fetch(session, &resource).await?;
        let text = document.explain(&resource, &path, self.detail())?;
        session.show(|screen| screen.write_all(text.as_bytes()))
    }

    fn detail(&self) -> FieldDetail {
        if self.recursive {
            FieldDetail::AllLevels
        } else {
            FieldDetail::Descriptions
        }
    }

    /// Splits the argument into the resource type, whose group may contain dots, and the field path.
    async fn split(&self, session: &CommandSession) -> Result<(String, Vec<String>), ClientError> {
        let parts: Vec<&str> = self.what.split('.').filter(|part| !part.is_empty()).collect();
        let all = session.discovery.lock().await.all(&session.api).await?;
        for length in (2..=parts.len()).rev() {
            let word = parts[..length].join(".").to_lowercase();
            if all.iter().any(|resource| {
                !resource.group.is_empty() && word.ends_with(&resource.group) && {
                    let name = word[..word.len() - resource.group.len()].trim_end_matches('.');
                    resource.has_name(name)
                }
            }) {
                return Ok((
                    word,
                    parts[length..].iter().map(|&part| part.to_owned()).collect(),
                ));
            }
        }
        let (first, rest) = parts
            .split_first()
            .ok_or_else(|| ClientError::usage("specify a resource type"))?;
        Ok((
            (*first).to_owned(),
            rest.iter().map(|&part| part.to_owned()).collect(),
        ))
    }
}

// --- OpenApiDocument ---

impl OpenApiDocument {
    async fn fetch(session: &CommandSession, resource: &ApiResource) -> Result<Self, ClientError> {
        let index = session.api.get("/openapi/v3").await?;
        let name = if resource.group.is_empty() {
            format!("api/{}", resource.version)
        } else {
            format!("apis/{}/{}", resource.group, resource.version)
        };
        let address = index["paths"][&name]["serverRelativeURL"].as_str();
        let address = address.ok_or_else(|| {
            ClientError::new(format!("the server publishes no OpenAPI document for {name}"))
        })?;
        let document = session.api.get(address).await?;
        Ok(Self { document })
    }

    fn explain(
        &self,
        resource: &ApiResource,
        path: &[String],
        detail: FieldDetail,
    ) -> Result<String, ClientError> {
        let mut schema = self.kind_schema(resource)?;
        let mut field = schema;
        for name in path {
            let inner = self.element_schema(schema);
            field = inner["properties"]
                .get(name)
                .ok_or_else(|| ClientError::new(format!("field {name:?} does not exist")))?;
            schema = field;
        }
        let mut text = String::new();
        if !resource.group.is_empty() {
            text.extend(["GROUP:      ", &resource.group, "\n"]);
        }
        text.extend(["KIND:       ", &resource.kind, "\n"]);
        text.extend(["VERSION:    ", &resource.version, "\n\n"]);
        if let Some(name) = path.last() {
            text.extend(["FIELD: ", name, " <", &self.type_of(field), ">\n"]);
            match enumerated(field) {
                Some(values) => {
                    text += "ENUM:\n";
                    for value in values {
                        text.extend(["    ", &value, "\n"]);
                    }
                }
                None => text.push('\n'),
            }
            text.push('\n');
        }
        let inner = self.element_schema(field);
        text += "DESCRIPTION:\n";
        let own = field["description"].as_str().unwrap_or_default();
        let of_type = inner["description"]
            .as_str()
            .filter(|text| *text != own)
            .unwrap_or_default();
        if own.is_empty() && of_type.is_empty() {
            text += "    <empty>\n";
        }
        for description in [own, of_type].iter().filter(|text| !text.is_empty()) {
            wrap(&mut text, description, 4);
        }
        text += "    \n";
        let has_fields = inner["properties"]
            .as_object()
            .is_some_and(|fields| !fields.is_empty());
        if has_fields {
            text += "FIELDS:\n";
            let mut ancestors = Vec::new();
            self.fields(&mut text, inner, 2, detail, &mut ancestors);
        }
        text.push('\n');
        Ok(text)
    }

    /// Returns the schema of a kind.
    fn kind_schema(&self, resource: &ApiResource) -> Result<&Value, ClientError> {
        let schemas = self.document["components"]["schemas"]
            .as_object()
            .into_iter()
            .flatten();
        let has_kind = |schema: &Value| {
            let kinds = schema["x-kubernetes-group-version-kind"]
                .as_array()
                .into_iter()
                .flatten();
            kinds.into_iter().any(|kind| {
                kind["group"] == *resource.group
                    && kind["version"] == *resource.version
                    && kind["kind"] == *resource.kind
            })
        };
        let mut found = schemas
            .map(|(_, schema)| schema)
            .filter(|schema| has_kind(schema));
        found
            .next()
            .ok_or_else(|| ClientError::new(format!("the server publishes no schema for {}", resource.kind)))
    }

    fn fields<'a>(
        &'a self,
        text: &mut String,
        schema: &'a Value,
        depth: usize,
        detail: FieldDetail,
        ancestors: &mut Vec<&'a Value>,
    ) {
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let mark = if required.contains(&name.as_str()) {
                " -required-"
            } else {
                ""
            };
            let indent = " ".repeat(depth);
            text.extend([&indent, name, "\t<", &self.type_of(field), ">", mark, "\n"]);
            if let Some(values) = enumerated(field) {
                text.extend([&indent, "enum: ", &values.join(", "), "\n"]);
            }
            let inner = self.element_schema(field);
            if detail == FieldDetail::AllLevels {
                // A type may contain itself, as JSONSchemaProps does.
                if !ancestors.iter().any(|outer| std::ptr::eq(*outer, inner)) {
                    ancestors.push(inner);
                    self.fields(text, inner, depth + 2, detail, ancestors);
                    ancestors.pop();
                }
            } else {
                let own = field["description"]
                    .as_str()
                    .or_else(|| inner["description"].as_str());
                wrap(text, own.unwrap_or("<no description>"), depth + 2);
                text.push('\n');
            }
        }
    }

    /// Returns the schema of a field's values: the items of a list, the values of a map, or the referenced type.
    fn element_schema<'a>(&'a self, schema: &'a Value) -> &'a Value {
        if let Some(target) = self.resolve_reference(schema) {
            return self.element_schema(target);
        }
        if schema.get("items").is_some() {
            return self.element_schema(&schema["items"]);
        }
        if schema["additionalProperties"].is_object() {
            return self.element_schema(&schema["additionalProperties"]);
        }
        schema
    }

    fn resolve_reference<'a>(&'a self, schema: &'a Value) -> Option<&'a Value> {
        let name = reference(schema)?;
        self.document["components"]["schemas"].get(name)
    }

    /// Returns the type of a field: `string`, `[]Container`, `map[string]string`.
    fn type_of(&self, schema: &Value) -> String {
        if let Some(name) = reference(schema) {
            // A named scalar type, such as a time, is shown as the scalar.
            let target = &self.document["components"]["schemas"][name];
            if target["type"].as_str().is_some_and(|kind| kind != "object") {
                return self.type_of(target);
            }
            return name.rsplit('.').next().unwrap_or(name).to_owned();
        }
        match schema["type"].as_str() {
            Some("array") => format!("[]{}", self.type_of(&schema["items"])),
            Some("object") if schema["additionalProperties"].is_object() => {
                format!("map[string]{}", self.type_of(&schema["additionalProperties"]))
            }
            Some("object") => "Object".to_owned(),
            Some(name) => name.to_owned(),
            None if schema["x-kubernetes-int-or-string"] == true => "IntOrString".to_owned(),
            None => "Object".to_owned(),
        }
    }
}

fn reference(schema: &Value) -> Option<&str> {
    let direct = schema["$ref"].as_str();
    let wrapped = || match schema["allOf"].as_array().map(Vec::as_slice) {
        Some([only]) => only["$ref"].as_str(),
        _ => None,
    };
    direct.or_else(wrapped)?.strip_prefix("#/components/schemas/")
}

fn enumerated(field: &Value) -> Option<Vec<String>> {
    let values = field["enum"].as_array().filter(|values| !values.is_empty())?;
    Some(
        values
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect(),
    )
}

/// Writes text with line breaks between words.
fn wrap(text: &mut String, description: &str, depth: usize) {
    let indent = " ".repeat(depth);
    for paragraph in description.lines() {
        let mut line = String::new();
        let mut gap = 0;
        for word in paragraph.split(' ') {
            if word.is_empty() {
                // Consecutive spaces are kept.
                gap += 1;
                continue;
            }
            if !line.is_empty() && line.len() + gap + word.len() > LINE_WIDTH {
                text.extend([&indent, line.as_str(), "\n"]);
                line.clear();
            }
            if !line.is_empty() {
                line.push_str(&" ".repeat(gap));
            }
            line.push_str(word);
            gap = 1;
        }
        text.extend([&indent, line.as_str(), "\n"]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn test_document() -> (OpenApiDocument, ApiResource) {
        let document = json!({"components": {"schemas": {
            "a.b.Pod": {"description": "A pod.", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
                "properties": {"spec": {"description": "Desired state.", "allOf": [{"$ref": "#/components/schemas/a.b.Spec"}]}}},
            "a.b.Spec": {"description": "The specification of a pod.", "required": ["names"], "properties": {
                "names": {"type": "array", "items": {"type": "string"}, "description": "All names."},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "policy": {"type": "string", "enum": ["A", "B"]},
                "self": {"allOf": [{"$ref": "#/components/schemas/a.b.Spec"}]}}}}}});
        let resource = ApiResource {
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            ..ApiResource::default()
        };
        (OpenApiDocument { document }, resource)
    }

    #[test]
    fn prints_fields_with_their_types() {
        let (document, pod) = test_document();
        let text = document
            .explain(&pod, &["spec".to_owned()], FieldDetail::Descriptions)
            .unwrap();
        for part in [
            "KIND:       Pod\nVERSION:    v1\n\nFIELD: spec <Spec>\n\n\nDESCRIPTION:\n    Desired state.\n    The specification of a pod.\n",
            "  names\t<[]string> -required-\n    All names.\n",
            "  labels\t<map[string]string>\n    <no description>\n",
            "  policy\t<string>\n  enum: A, B\n",
        ] {
            assert!(text.contains(part), "{part}\nis not in\n{text}");
        }
        assert!(
            document
                .explain(&pod, &["nothing".to_owned()], FieldDetail::Descriptions)
                .is_err()
        );
    }

    #[test]
    fn stops_at_recursive_types() {
        let (document, pod) = test_document();
        let text = document.explain(&pod, &[], FieldDetail::AllLevels).unwrap();
        assert!(
            text.contains("  spec\t<Spec>\n    labels\t<map[string]string>\n"),
            "{text}"
        );
    }
}
