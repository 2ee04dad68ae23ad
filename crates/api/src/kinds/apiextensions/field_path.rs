//! Field paths of definitions: `.spec.replicas`, `.spec['a.b']`.

use serde_json::Value;

use super::schema::{self, AdditionalPropertiesField};
use crate::strategy::Tree;

/// The field that a path refers to.
#[derive(Debug, PartialEq)]
pub(super) struct ResolvedField<'s> {
    /// The path as in errors.
    pub(super) path: String,
    /// The schema of the field.
    pub(super) schema: &'s Value,
}

const INVALID_FIELD: &str = "does not refer to a valid field";

/// Resolves a path in a schema; the error is the reason it is invalid. `brackets`: whether `['a.b']` is allowed.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go ValidFieldPath
pub(super) fn resolve<'s>(
    text: &str,
    schema: &'s Value,
    brackets: bool,
) -> Result<ResolvedField<'s>, String> {
    let mut resolved = ResolvedField {
        path: String::new(),
        schema,
    };
    let mut rest = text;
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = next_token(&mut rest) {
        match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let name = self::next_token(&mut rest).ok_or_else(end)?;
                let inner = name
                    .strip_prefix('\'')
                    .and_then(|name| name.strip_suffix('\''))
                    .ok_or_else(|| format!("expected single quoted string but got {name}"))?;
                resolved.enter(&inner.replace("\\'", "'").replace("\\\\", "\\"))?;
                match self::next_token(&mut rest).ok_or_else(end)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => resolved.enter(self::next_token(&mut rest).ok_or_else(end)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(resolved)
}

/// The next delimiter, quoted text, or name.
fn next_token<'t>(rest: &mut &'t str) -> Option<&'t str> {
    let text = *rest;
    let length = match text.as_bytes().first()? {
        b'.' | b'[' | b']' => 1,
        b'\'' => {
            let bytes = text.as_bytes();
            let end = (1..bytes.len()).find(|index| bytes[*index] == b'\'' && bytes[index - 1] != b'\\');
            end.map_or(text.len(), |index| index + 1)
        }
        _ => text.find(['.', '[', ']']).unwrap_or(text.len()),
    };
    let (token, after) = text.split_at(length);
    *rest = after;
    Some(token)
}

// --- Found ---

impl ResolvedField<'_> {
    fn enter(&mut self, name: &str) -> Result<(), String> {
        let properties = self.schema.entries("properties");
        if !properties.is_empty() {
            self.schema = properties.get(name).ok_or(INVALID_FIELD)?;
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(name);
        } else if let AdditionalPropertiesField::Schema(schema) = schema::additional(self.schema) {
            self.schema = schema;
            self.path.extend(["[", name, "]"]);
        } else {
            return Err(INVALID_FIELD.to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    proptest::proptest! {
        #[test]
        fn resolves_any_text_without_panic(text in "[a.'\\[\\]\\\\\u{e9}]{0,12}") {
            let schema = json!({"additionalProperties": {"additionalProperties": {"type": "string"}}});
            let _ = resolve(&text, &schema, true);
        }
    }

    #[test]
    fn resolves_fields_and_map_keys() {
        let schema = json!({"properties": {
            "spec": {"properties": {"a": {"type": "string"}, "b.c": {"type": "integer"}}},
            "map": {"additionalProperties": {"type": "boolean"}},
        }});
        let path = |text: &str| {
            resolve(text, &schema, true)
                .map(|resolved| (resolved.path, resolved.schema.text("type").to_owned()))
        };
        assert_eq!(path(".spec.a"), Ok(("spec.a".into(), "string".into())));
        assert_eq!(path(".spec['b.c']"), Ok(("spec.b.c".into(), "integer".into())));
        assert_eq!(path(".map.x"), Ok(("map[x]".into(), "boolean".into())));
        assert_eq!(path(".spec.z"), Err(INVALID_FIELD.into()));
        assert_eq!(path("spec"), Err("expected [ or . but got: spec".into()));
        assert_eq!(
            path(".spec[a]"),
            Err("expected single quoted string but got a".into())
        );
        assert!(resolve(".spec['a']", &schema, false).is_err());
    }
}
