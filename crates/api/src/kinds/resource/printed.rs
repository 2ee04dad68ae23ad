//! Parts of objects as errors show them: in the order of their type, as they go over the wire, or with every
//! field under its name in Go.

use serde_json::Value;

use crate::{
    field::Shown,
    go,
    rules::Tree,
    schema::{Field, Struct, Type, schema},
};

/// How fields are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// What is there, by its name on the wire.
    Wire,
    /// All, by their names in Go.
    Go,
}

/// A part of this type of the group, as it goes over the wire.
pub(super) fn wire(ty: &str, value: &Value) -> Shown {
    Shown::Printed(text(ty, value, Form::Wire))
}

/// The text of a part of this type, with every field.
pub(super) fn go_struct(ty: &str, value: &Value) -> String {
    text(ty, value, Form::Go)
}

fn text(ty: &str, value: &Value, form: Form) -> String {
    let ty = schema()
        .get("resource", "v1", ty)
        .expect("errors show types of the group");
    let mut out = String::new();
    object(ty.get(), value, form, &mut out);
    out
}

fn object(ty: &Struct, value: &Value, form: Form, out: &mut String) {
    out.push('{');
    let mut first = true;
    fields(ty, value, form, &mut first, out);
    out.push('}');
}

fn fields(ty: &Struct, value: &Value, form: Form, first: &mut bool, out: &mut String) {
    for field in &ty.fields {
        if field.is_inline() {
            if let Type::Struct(inner) = &field.ty {
                fields(inner.get(), value, form, first, out);
            }
            continue;
        }
        let held = value.at(field.name);
        if form == Form::Wire && held.is_null() {
            continue;
        }
        if !std::mem::take(first) {
            out.push(',');
        }
        let name = match form {
            Form::Wire => field.name.to_owned(),
            Form::Go => go_name(field.name),
        };
        out.push_str(&go::json_string(&name));
        out.push(':');
        if held.is_null() {
            empty(field, out);
        } else {
            one(&field.ty, held, form, out);
        }
    }
}

fn one(ty: &Type, value: &Value, form: Form, out: &mut String) {
    match (ty, value) {
        (Type::Struct(ty), _) => object(ty.get(), value, form, out),
        (Type::List(ty), Value::Array(items)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                one(ty, item, form, out);
            }
            out.push(']');
        }
        (Type::Map(ty, _), Value::Object(entries)) => {
            out.push('{');
            for (index, (key, item)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&go::json_string(key));
                out.push(':');
                one(ty, item, form, out);
            }
            out.push('}');
        }
        _ => out.push_str(&go::json(value)),
    }
}

/// A field that is not there, in Go.
fn empty(field: &Field, out: &mut String) {
    match &field.ty {
        _ if field.pointer => out.push_str("null"),
        Type::Struct(ty) => object(ty.get(), &Value::Null, Form::Go, out),
        Type::String(_) => out.push_str("\"\""),
        Type::Int32(_) | Type::Int64(_) => out.push('0'),
        Type::Bool(_) => out.push_str("false"),
        Type::Quantity => out.push_str("\"0\""),
        _ => out.push_str("null"),
    }
}

fn go_name(name: &str) -> String {
    if name == "cel" {
        return "CEL".to_owned();
    }
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_come_in_the_order_of_their_type() {
        let request = json!({"name": "r", "exactly": {"count": 1, "deviceClassName": "c", "selectors": [{"cel": {"expression": "e"}}]}});
        assert_eq!(
            text("DeviceRequest", &request, Form::Wire),
            r#"{"name":"r","exactly":{"deviceClassName":"c","selectors":[{"cel":{"expression":"e"}}],"count":1}}"#
        );
        assert_eq!(
            text("DeviceRequest", &request, Form::Go),
            r#"{"Name":"r","Exactly":{"DeviceClassName":"c","Selectors":[{"CEL":{"Expression":"e"}}],"AllocationMode":"","Count":1,"AdminAccess":null,"Tolerations":null,"Capacity":null,"DerivedAttributes":null},"FirstAvailable":null}"#
        );
    }
}
