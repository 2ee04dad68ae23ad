//! `k3 explain`: what fields mean, from the documents that the server publishes.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use crate::{connection::ConnectFlags, failed::Failed, resource::Resource, session::Session};

/// Letters in a line of prose.
const LINE: usize = 76;

/// Describe the fields of a kind
#[derive(Debug, Args)]
pub struct ExplainFlags {
    /// Kind, and fields within it: `pods`, `deployment.spec.template`
    #[arg(value_name = "TYPE[.FIELD...]")]
    what: String,

    /// All fields within fields, without their descriptions
    #[arg(long)]
    recursive: bool,

    /// Version of the API, such as `apps/v1` [default: the preferred one]
    #[arg(long, value_name = "GROUP/VERSION")]
    api_version: Option<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

/// The schemas of a group and version.
struct Book {
    document: Value,
}

// --- ExplainFlags ---

impl ExplainFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
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
                .of_kind(&session.api, version, &kind)
                .await?;
            resource = found
                .ok_or_else(|| Failed::new(format!("couldn't find resource for {version:?}, Kind={kind}")))?;
        }
        let book = Book::open(session, &resource).await?;
        let text = book.explain(&resource, &path, self.recursive)?;
        session.show(|screen| screen.write_all(text.as_bytes()))
    }

    /// The kind, which may have dots in its name (`certificates.example.com.spec`), and the fields.
    async fn split(&self, session: &Session) -> Result<(String, Vec<String>), Failed> {
        let parts: Vec<&str> = self.what.split('.').filter(|part| !part.is_empty()).collect();
        let all = session.discovery.lock().await.all(&session.api).await?;
        for length in (2..=parts.len()).rev() {
            let word = parts[..length].join(".").to_lowercase();
            if all.iter().any(|resource| {
                !resource.group.is_empty() && word.ends_with(&resource.group) && {
                    let name = word[..word.len() - resource.group.len()].trim_end_matches('.');
                    resource.is_called(name)
                }
            }) {
                return Ok((
                    word,
                    parts[length..].iter().map(|&part| part.to_owned()).collect(),
                ));
            }
        }
        let (first, rest) = parts.split_first().ok_or_else(|| Failed::usage("name a kind"))?;
        Ok((
            (*first).to_owned(),
            rest.iter().map(|&part| part.to_owned()).collect(),
        ))
    }
}

// --- Book ---

impl Book {
    async fn open(session: &Session, resource: &Resource) -> Result<Self, Failed> {
        let index = session.api.get("/openapi/v3").await?;
        let name = if resource.group.is_empty() {
            format!("api/{}", resource.version)
        } else {
            format!("apis/{}/{}", resource.group, resource.version)
        };
        let address = index["paths"][&name]["serverRelativeURL"].as_str();
        let address =
            address.ok_or_else(|| Failed::new(format!("the server publishes nothing about {name}")))?;
        let document = session.api.get(address).await?;
        Ok(Self { document })
    }

    fn explain(&self, resource: &Resource, path: &[String], is_recursive: bool) -> Result<String, Failed> {
        let mut schema = self.root(resource)?;
        let mut field = schema;
        for name in path {
            let inner = self.inner(schema);
            field = inner["properties"]
                .get(name)
                .ok_or_else(|| Failed::new(format!("field {name:?} does not exist")))?;
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
        let inner = self.inner(field);
        text += "DESCRIPTION:\n";
        let own = field["description"].as_str().unwrap_or_default();
        let of_type = inner["description"]
            .as_str()
            .filter(|words| *words != own)
            .unwrap_or_default();
        if own.is_empty() && of_type.is_empty() {
            text += "    <empty>\n";
        }
        for words in [own, of_type].iter().filter(|words| !words.is_empty()) {
            prose(&mut text, words, 4);
        }
        text += "    \n";
        let has_fields = inner["properties"]
            .as_object()
            .is_some_and(|fields| !fields.is_empty());
        if has_fields {
            text += "FIELDS:\n";
            let mut within = Vec::new();
            self.fields(&mut text, inner, 2, is_recursive, &mut within);
        }
        text.push('\n');
        Ok(text)
    }

    /// The schema of a kind.
    fn root(&self, resource: &Resource) -> Result<&Value, Failed> {
        let schemas = self.document["components"]["schemas"]
            .as_object()
            .into_iter()
            .flatten();
        let is_meant = |schema: &Value| {
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
            .filter(|schema| is_meant(schema));
        found
            .next()
            .ok_or_else(|| Failed::new(format!("the server publishes nothing about {}", resource.kind)))
    }

    fn fields<'a>(
        &'a self,
        text: &mut String,
        schema: &'a Value,
        depth: usize,
        is_recursive: bool,
        within: &mut Vec<&'a Value>,
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
            let inner = self.inner(field);
            if is_recursive {
                // A type may have itself within.
                if !within.iter().any(|outer| std::ptr::eq(*outer, inner)) {
                    within.push(inner);
                    self.fields(text, inner, depth + 2, is_recursive, within);
                    within.pop();
                }
            } else {
                let own = field["description"]
                    .as_str()
                    .or_else(|| inner["description"].as_str());
                prose(text, own.unwrap_or("<no description>"), depth + 2);
                text.push('\n');
            }
        }
    }

    /// What is within a field: the items of lists, the values of maps, the type it refers to.
    fn inner<'a>(&'a self, schema: &'a Value) -> &'a Value {
        if let Some(target) = self.target(schema) {
            return self.inner(target);
        }
        if schema.get("items").is_some() {
            return self.inner(&schema["items"]);
        }
        if schema["additionalProperties"].is_object() {
            return self.inner(&schema["additionalProperties"]);
        }
        schema
    }

    /// What a reference leads to.
    fn target<'a>(&'a self, schema: &'a Value) -> Option<&'a Value> {
        let name = reference(schema)?;
        self.document["components"]["schemas"].get(name)
    }

    /// `string`, `[]Container`, `map[string]string`.
    fn type_of(&self, schema: &Value) -> String {
        if let Some(name) = reference(schema) {
            // A text under a name, such as a time, is a text.
            let named = &self.document["components"]["schemas"][name];
            if named["type"].as_str().is_some_and(|kind| kind != "object") {
                return self.type_of(named);
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

/// Writes words in lines that are not too long.
fn prose(text: &mut String, words: &str, depth: usize) {
    let indent = " ".repeat(depth);
    for paragraph in words.lines() {
        let mut line = String::new();
        let mut gap = 0;
        for word in paragraph.split(' ') {
            if word.is_empty() {
                // Several spaces stay several.
                gap += 1;
                continue;
            }
            if !line.is_empty() && line.len() + gap + word.len() > LINE {
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

    fn book() -> (Book, Resource) {
        let document = json!({"components": {"schemas": {
            "a.b.Pod": {"description": "A pod.", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
                "properties": {"spec": {"description": "The wish.", "allOf": [{"$ref": "#/components/schemas/a.b.Spec"}]}}},
            "a.b.Spec": {"description": "What is wished.", "required": ["names"], "properties": {
                "names": {"type": "array", "items": {"type": "string"}, "description": "All names."},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "policy": {"type": "string", "enum": ["A", "B"]},
                "self": {"allOf": [{"$ref": "#/components/schemas/a.b.Spec"}]}}}}}});
        let resource = Resource {
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            ..Resource::default()
        };
        (Book { document }, resource)
    }

    #[test]
    fn fields_are_told_with_their_types() {
        let (book, pod) = book();
        let text = book.explain(&pod, &["spec".to_owned()], false).unwrap();
        for part in [
            "KIND:       Pod\nVERSION:    v1\n\nFIELD: spec <Spec>\n\n\nDESCRIPTION:\n    The wish.\n    What is wished.\n",
            "  names\t<[]string> -required-\n    All names.\n",
            "  labels\t<map[string]string>\n    <no description>\n",
            "  policy\t<string>\n  enum: A, B\n",
        ] {
            assert!(text.contains(part), "{part}\nis not in\n{text}");
        }
        assert!(book.explain(&pod, &["nothing".to_owned()], false).is_err());
    }

    #[test]
    fn a_type_within_itself_ends() {
        let (book, pod) = book();
        let text = book.explain(&pod, &[], true).unwrap();
        assert!(
            text.contains("  spec\t<Spec>\n    labels\t<map[string]string>\n"),
            "{text}"
        );
    }
}
