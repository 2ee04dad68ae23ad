//! From text, bytes or trees to objects.

use serde::de::DeserializeOwned;
use serde_json::{Error, Value};

use crate::value::{Nulls, ValueDeserializer};

const NULL: &[u8] = b"null";

/// Decodes an object.
///
/// # Errors
/// The text is not JSON, or not an object of the type.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let error = match serde_json::from_slice(bytes) {
        Ok(object) => return Ok(object),
        Err(error) => error,
    };
    // The kind of the error is irrelevant: for an enum `null` is a syntax error.
    if !bytes.windows(NULL.len()).any(|text| text == NULL) {
        return Err(error);
    }
    let tree = serde_json::from_slice(bytes);
    tree.ok().and_then(|tree| read_nulls(&tree)).ok_or(error)
}

/// Decodes an object.
///
/// # Errors
/// The text is not JSON, or not an object of the type.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    from_slice(text.as_bytes())
}

/// Decodes an object.
///
/// # Errors
/// The tree is not an object of the type.
pub fn from_value<T: DeserializeOwned>(tree: &Value) -> Result<T, Error> {
    T::deserialize(tree).or_else(|error| read_nulls(tree).ok_or(error))
}

fn read_nulls<T: DeserializeOwned>(tree: &Value) -> Option<T> {
    let read = |nulls| T::deserialize(ValueDeserializer::new(tree, nulls)).ok();
    // The last two are for types without a default for a field, and for flattened parts, whose types are not known while they
    // are read.
    read(Nulls::Absent)
        .or_else(|| read(Nulls::Zero))
        .or_else(|| read(Nulls::Dropped))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use k8s_openapi::{
        api::core::v1::{Node, Pod, Service},
        apimachinery::pkg::apis::meta::v1::Time,
    };
    use serde::Deserialize;
    use serde_json::{json, value::RawValue};

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Strict {
        text: String,
        number: i64,
        float: f64,
        yes: bool,
        list: Vec<String>,
        map: BTreeMap<String, i32>,
        nested: Inner,
        pointer: Option<String>,
        free: Value,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Inner {
        #[serde(default = "one")]
        count: i32,
        names: Vec<Box<str>>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Flat {
        name: String,
        #[serde(flatten)]
        inner: Inner,
        #[serde(flatten)]
        rest: HashMap<String, Value>,
    }

    fn one() -> i32 {
        1
    }

    #[test]
    fn null_is_the_zero_value_of_a_required_field() {
        let object: Strict = from_str(
            r#"{"text":null,"number":null,"float":null,"yes":null,"list":null,"map":null,"nested":null,"pointer":null,
                "free":null}"#,
        )
        .unwrap();
        let zero = Strict {
            text: String::new(),
            number: 0,
            float: 0.0,
            yes: false,
            list: Vec::new(),
            map: BTreeMap::new(),
            nested: Inner {
                count: 0,
                names: Vec::new(),
            },
            pointer: None,
            free: Value::Null,
        };
        assert_eq!(object, zero);
    }

    #[test]
    fn a_field_that_is_null_is_absent() {
        let inner: Inner = from_str(r#"{"count":null,"names":null}"#).unwrap();
        assert_eq!(
            inner,
            Inner {
                count: 1,
                names: Vec::new()
            }
        );
        for text in [
            r#"{"name":null,"count":null,"names":["a",null],"more":null}"#,
            r#"{"name":null,"count":null,"names":["a"],"more":null}"#,
        ] {
            let flat: Flat = from_str(text).unwrap();
            assert_eq!((flat.name.as_str(), flat.inner.count), ("", 1));
            assert_eq!(flat.inner.names, ["a".into()]);
        }
        let flat: Flat = from_str(r#"{"names":null}"#).unwrap();
        assert!(flat.inner.names.is_empty());
    }

    #[test]
    fn null_in_a_list_or_a_map_is_the_zero_value() {
        assert_eq!(from_str::<Vec<Option<i32>>>("[null,1]").unwrap(), [None, Some(1)]);
        assert_eq!(from_str::<Vec<i32>>("[null,1]").unwrap(), [0, 1]);
        let map: BTreeMap<String, String> = from_str(r#"{"a":null,"b":"c"}"#).unwrap();
        assert_eq!(
            map,
            BTreeMap::from([("a".into(), String::new()), ("b".into(), "c".into())])
        );
        let inner: Vec<Inner> = from_str(r#"[null,{"count":2}]"#).unwrap();
        assert_eq!((inner[0].count, inner[1].count), (1, 2));
    }

    #[test]
    fn free_form_keeps_its_null() {
        #[derive(Deserialize)]
        struct Free {
            value: Value,
            raw: Box<RawValue>,
            name: String,
        }
        let free: Free = from_str(r#"{"value":{"a":null,"b":[null]},"raw":{"a":null},"name":null}"#).unwrap();
        assert_eq!(free.value, json!({"a": null, "b": [null]}));
        assert_eq!((free.raw.get(), &*free.name), (r#"{"a":null}"#, ""));
    }

    #[test]
    fn types_of_the_api_read_null_elements() {
        let node: Node = from_value(
            &json!({"metadata": {"labels": {"a": null}}, "status": {"images": [{"names": null},
            {"names": [null, "a"]}, null], "capacity": null}}),
        )
        .unwrap();
        let images = node.status.unwrap().images.unwrap();
        assert_eq!(images[1].names.as_deref().unwrap(), ["", "a"]);
        assert_eq!(node.metadata.labels.unwrap()["a"], "");
        let pod: Pod =
            from_value(&json!({"metadata": {"creationTimestamp": null}, "spec": {"containers": null}}))
                .unwrap();
        assert_eq!(pod.metadata.creation_timestamp, None::<Time>);
        assert!(pod.spec.unwrap().containers.is_empty());
        let conditions = json!([{"lastTransitionTime": null}, null]);
        let service: Service = from_value(&json!({"status": {"conditions": conditions}})).unwrap();
        let conditions = service.status.unwrap().conditions.unwrap();
        assert_eq!(
            conditions[0].last_transition_time.0.to_string(),
            "0001-01-01T00:00:00Z"
        );
        assert_eq!(conditions[0], conditions[1]);
    }

    #[test]
    fn what_null_does_not_explain_is_still_an_error() {
        assert!(from_str::<Inner>(r#"{"count":"x","names":null}"#).is_err());
        assert!(from_str::<Inner>(r#"{"count":null"#).is_err());
        let error = from_str::<Inner>(r#"{"names":7,"count":null}"#).unwrap_err();
        assert!(error.to_string().contains("integer `7`"), "{error}");
    }
}
