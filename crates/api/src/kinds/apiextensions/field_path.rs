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

/// Why a path does not name a field, in upstream's words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FieldPathError {
    #[error("unexpected end of JSON path")]
    UnexpectedEnd,
    #[error("array notation is not allowed")]
    Brackets,
    #[error("expected single quoted string but got {0}")]
    NotQuoted(String),
    #[error("expected ] but got {0}")]
    MissingBracket(String),
    #[error("expected [ or . but got: {0}")]
    UnexpectedToken(String),
    #[error("does not refer to a valid field")]
    NoSuchField,
}

/// How a path may name fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldPathSyntax {
    /// `.a.b`
    Dots,
    /// `.a['b.c']` too.
    DotsAndBrackets,
}

/// Resolves a path in a schema.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go ValidFieldPath
pub(super) fn resolve<'s>(
    text: &str,
    schema: &'s Value,
    syntax: FieldPathSyntax,
) -> Result<ResolvedField<'s>, FieldPathError> {
    let mut resolved = ResolvedField {
        path: String::new(),
        schema,
    };
    let mut rest = text;
    while let Some(token) = next_token(&mut rest) {
        match token {
            "[" if syntax == FieldPathSyntax::Dots => return Err(FieldPathError::Brackets),
            "[" => {
                let name = self::next_token(&mut rest).ok_or(FieldPathError::UnexpectedEnd)?;
                let inner = name
                    .strip_prefix('\'')
                    .and_then(|name| name.strip_suffix('\''))
                    .ok_or_else(|| FieldPathError::NotQuoted(name.to_owned()))?;
                resolved.enter(&inner.replace("\\'", "'").replace("\\\\", "\\"))?;
                match self::next_token(&mut rest).ok_or(FieldPathError::UnexpectedEnd)? {
                    "]" => {}
                    other => return Err(FieldPathError::MissingBracket(other.to_owned())),
                }
            }
            "." => resolved.enter(self::next_token(&mut rest).ok_or(FieldPathError::UnexpectedEnd)?)?,
            other => return Err(FieldPathError::UnexpectedToken(other.to_owned())),
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
    fn enter(&mut self, name: &str) -> Result<(), FieldPathError> {
        let properties = self.schema.entries("properties");
        if !properties.is_empty() {
            self.schema = properties.get(name).ok_or(FieldPathError::NoSuchField)?;
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(name);
        } else if let AdditionalPropertiesField::Schema(schema) = schema::additional(self.schema) {
            self.schema = schema;
            self.path.extend(["[", name, "]"]);
        } else {
            return Err(FieldPathError::NoSuchField);
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
            let _ = resolve(&text, &schema, FieldPathSyntax::DotsAndBrackets);
        }
    }

    #[test]
    fn resolves_fields_and_map_keys() {
        let schema = json!({"properties": {
            "spec": {"properties": {"a": {"type": "string"}, "b.c": {"type": "integer"}}},
            "map": {"additionalProperties": {"type": "boolean"}},
        }});
        let path = |text: &str| {
            resolve(text, &schema, FieldPathSyntax::DotsAndBrackets)
                .map(|resolved| (resolved.path, resolved.schema.text("type").to_owned()))
        };
        assert_eq!(path(".spec.a"), Ok(("spec.a".into(), "string".into())));
        assert_eq!(path(".spec['b.c']"), Ok(("spec.b.c".into(), "integer".into())));
        assert_eq!(path(".map.x"), Ok(("map[x]".into(), "boolean".into())));
        assert_eq!(path(".spec.z"), Err(FieldPathError::NoSuchField));
        assert_eq!(path("spec"), Err(FieldPathError::UnexpectedToken("spec".into())));
        assert_eq!(path(".spec[a]"), Err(FieldPathError::NotQuoted("a".into())));
        assert!(resolve(".spec['a']", &schema, FieldPathSyntax::Dots).is_err());
    }
}
