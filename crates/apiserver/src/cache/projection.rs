//! Decodes only some fields of an object.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Which fields of an object are decoded.
#[derive(Clone, Copy)]
pub(super) enum FieldProjection {
    /// Everything except managed fields, which may be larger than all the rest.
    Unmanaged,
    /// The same, of metadata alone.
    UnmanagedMetadata,
    /// Fields whose names are wanted, wherever they stand.
    Named(fn(&str) -> bool),
}

/// A name, if fields that are called so are read: most are not, and nothing is made of their names.
struct ProjectedName(FieldProjection);

// --- FieldProjection ---

impl FieldProjection {
    fn has(self, name: &str) -> bool {
        match self {
            FieldProjection::Unmanaged => true,
            FieldProjection::UnmanagedMetadata => name != "managedFields",
            FieldProjection::Named(wants) => wants(name),
        }
    }
}

impl<'de> DeserializeSeed<'de> for FieldProjection {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldProjection {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key_seed(ProjectedName(self))? {
            let Some(name) = name else {
                fields.next_value::<IgnoredAny>()?;
                continue;
            };
            let value = match self {
                // Elsewhere a field of that name is ordinary data.
                FieldProjection::Unmanaged if name == "metadata" => {
                    fields.next_value_seed(FieldProjection::UnmanagedMetadata)?
                }
                FieldProjection::Unmanaged | FieldProjection::UnmanagedMetadata => fields.next_value()?,
                FieldProjection::Named(_) => fields.next_value_seed(self)?,
            };
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

// --- ProjectedName ---

impl<'de> DeserializeSeed<'de> for ProjectedName {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Option<String>, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for ProjectedName {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<String>, E> {
        Ok(self.0.has(name).then(|| name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(tree: &Value, outline: FieldProjection) -> Value {
        let text = tree.to_string();
        let mut reader = serde_json::Deserializer::from_str(&text);
        outline.deserialize(&mut reader).unwrap()
    }

    #[test]
    fn projection_omits_managed_fields() {
        let tree = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"managedFields": [{"manager": "a"}], "name": "b"},
            "spec": {"managedFields": "ordinary data"}});
        assert_eq!(
            read(&tree, FieldProjection::Unmanaged),
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "b"}, "spec": {"managedFields": "ordinary data"}})
        );
    }

    #[test]
    fn projection_keeps_named_fields_at_every_depth() {
        let tree = json!({"spec": {"list": [{"name": "a", "other": [1]}, {"name": null}], "other": {"name": "b"}, "name": -1.5},
            "other": 1, "name": [true, 18_446_744_073_709_551_615_u64, -3]});
        assert_eq!(
            read(
                &tree,
                FieldProjection::Named(|name| matches!(name, "list" | "name" | "spec"))
            ),
            json!({"spec": {"list": [{"name": "a"}, {"name": null}], "name": -1.5}, "name": [true, 18_446_744_073_709_551_615_u64, -3]})
        );
    }
}
