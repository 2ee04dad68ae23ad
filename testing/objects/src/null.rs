//! Objects with `null` in one field each.

use k3_api::{
    kinds::Kind,
    schema::{StructRef, Type},
};
use serde_json::{Value, json};

/// Deeper than any type of the API that does not contain itself.
const DEEPEST: usize = 24;

/// For each field of a kind, at any depth, an object in which it is `null`. Fields that identify the object are kept.
pub fn null_objects(kind: &Kind) -> Vec<Value> {
    let Some(of) = kind.ty.table() else {
        return Vec::new();
    };
    let mut values = Vec::new();
    push_fields(of, &mut Vec::new(), &mut values, &|value| value);
    let objects = values.into_iter().enumerate().filter_map(|(number, value)| {
        let mut object = value;
        if object.get("metadata").is_some_and(Value::is_null) {
            return None;
        }
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.to_string().into();
        object["metadata"]["name"] = format!("null-{number}").into();
        if kind.is_namespaced() {
            object["metadata"]["namespace"] = json!("default");
        }
        Some(object)
    });
    objects.collect()
}

/// Puts a value where it belongs in the object around it.
type Wrap<'a> = &'a dyn Fn(Value) -> Value;

fn push_fields(of: StructRef, above: &mut Vec<&'static str>, found: &mut Vec<Value>, wrap: Wrap<'_>) {
    let name = of.get().name;
    // A type that contains itself is seen once more in itself.
    if above.len() == DEEPEST || above.iter().filter(|&&known| known == name).count() > 1 {
        return;
    }
    above.push(name);
    for field in of.get().all() {
        let within = |value: Value| wrap(json!({ field.name: value }));
        found.push(within(Value::Null));
        push_values(&field.ty, above, found, &within);
    }
    above.pop();
}

fn push_values(ty: &Type, above: &mut Vec<&'static str>, found: &mut Vec<Value>, wrap: Wrap<'_>) {
    match ty {
        Type::Struct(of) => push_fields(*of, above, found, wrap),
        Type::List(items) => {
            let within = |value: Value| wrap(json!([value]));
            found.push(within(Value::Null));
            push_values(items, above, found, &within);
        }
        Type::Strings(_) => found.push(wrap(json!([null]))),
        Type::Map(values, _) => {
            let within = |value: Value| wrap(json!({ "key": value }));
            found.push(within(Value::Null));
            push_values(values, above, found, &within);
        }
        _ => {}
    }
}
