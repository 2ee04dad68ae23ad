//! Objects with many entries at one place.

use std::collections::HashSet;

use k3_api::{
    kinds::{Kind, Persistence, builtin},
    schema::{Field, Struct, Type},
};
use serde_json::{Map, Value, json};

use super::clock::{few, many};

/// A list or a map of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) kind: &'static Kind,
    /// The struct that has the field.
    pub(crate) of: &'static Struct,
    pub(crate) field: &'static Field,
    /// The way to that struct.
    path: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Field(&'static str),
    /// The only item of a list.
    Item,
    /// The only entry of a map.
    Entry,
}

/// What entries look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entries {
    /// No two are alike.
    Distinct,
    /// All are the same, as far as that can be.
    Equal,
    /// Half of them are the same, and in the others nothing is set.
    EqualOrEmpty,
}

/// The lists and maps of all kinds, those of a struct once.
pub(crate) fn places() -> Vec<Place> {
    let mut seen = HashSet::new();
    let mut places = Vec::new();
    for kind in builtin().all() {
        if let Some(of) = kind.ty.table() {
            walk(
                kind,
                of.get(),
                &mut Vec::new(),
                &mut Vec::new(),
                &mut |field_path: Place| {
                    if seen.insert((
                        field_path.of.package,
                        field_path.of.version,
                        field_path.of.name,
                        field_path.field.name,
                    )) {
                        places.push(field_path);
                    }
                },
            );
        }
    }
    assert!(places.len() > 300, "{}", places.len());
    places
}

fn walk(
    kind: &'static Kind,
    of: &'static Struct,
    path: &mut Vec<Step>,
    above: &mut Vec<&'static str>,
    see: &mut impl FnMut(Place),
) {
    // Schemas have schemas in them.
    if above.contains(&of.name) {
        return;
    }
    above.push(of.name);
    for field in of.all() {
        let mut steps = vec![Step::Field(field.name)];
        let mut ty = &field.ty;
        if matches!(ty, Type::List(_) | Type::Map(..) | Type::Strings(_)) {
            see(Place {
                kind,
                of,
                field,
                path: path.clone(),
            });
        }
        loop {
            ty = match ty {
                Type::List(items) => {
                    steps.push(Step::Item);
                    items
                }
                Type::Map(values, _) => {
                    steps.push(Step::Entry);
                    values
                }
                _ => break,
            };
        }
        if let Type::Struct(inner) = ty {
            let length = path.len();
            path.extend(steps);
            walk(kind, inner.get(), path, above, see);
            path.truncate(length);
        }
    }
    above.pop();
}

impl Place {
    /// What it is called in messages.
    pub(crate) fn name(&self) -> String {
        format!("{} {}.{}", self.kind.kind, self.of.name, self.field.name)
    }

    /// Whether it is part of the status.
    pub(crate) fn is_status(&self) -> bool {
        matches!(self.path.first(), Some(Step::Field("status")))
    }

    /// Whether the kind is stored.
    pub(crate) fn is_stored(&self) -> bool {
        self.kind.persistence == Persistence::Stored
    }

    /// The way to the list or map, as JSON patches name it.
    pub(crate) fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) => pointer.extend(["/", name]),
                Step::Item => pointer.push_str("/0"),
                Step::Entry => pointer.push_str("/k"),
            }
        }
        pointer.extend(["/", self.field.name]);
        pointer
    }

    /// An object with so many entries at this place.
    pub(crate) fn object(&self, count: usize, entries: Entries) -> Value {
        self.wrap(json!({ self.field.name: filled(&self.field.ty, count, entries) }))
    }

    /// Objects of the two sizes that are compared.
    pub(crate) fn sizes(&self, entries: Entries) -> impl Fn(usize) -> Value {
        let long = self.object(many(), entries);
        let short = self.object(few(), entries);
        move |count| {
            if count == many() {
                long.clone()
            } else {
                short.clone()
            }
        }
    }

    /// An object with so many entries in every list and map of the struct.
    pub(crate) fn crowded(&self, count: usize) -> Value {
        let mut fields = scalars(self.of, 0, Entries::Distinct, 0);
        for field in self.of.all() {
            if matches!(field.ty, Type::List(_) | Type::Map(..) | Type::Strings(_)) {
                fields.insert(field.name.to_owned(), filled(&field.ty, count, Entries::Distinct));
            }
        }
        self.wrap(Value::Object(fields))
    }

    /// An object with a struct at the end of the way.
    fn wrap(&self, mut value: Value) -> Value {
        for step in self.path.iter().rev() {
            value = match step {
                Step::Field(name) => json!({ *name: value }),
                Step::Item => {
                    if let Value::Object(fields) = &mut value {
                        fields.entry("name").or_insert(json!("a"));
                    }
                    json!([value])
                }
                Step::Entry => json!({ "k": value }),
            };
        }
        let mut object = json!({
            "apiVersion": self.kind.api_version(),
            "kind": self.kind.kind.as_str(),
            "metadata": {
                "name": "a",
                "uid": "00000000-0000-0000-0000-000000000001",
                "resourceVersion": "1",
                "creationTimestamp": "2024-01-01T00:00:00Z",
            },
        });
        if self.kind.is_namespaced() {
            object["metadata"]["namespace"] = json!("default");
        }
        merge(&mut object, value);
        let decoded = self
            .kind
            .ty
            .normalize(&object)
            .expect("entries are of their types");
        decoded.value
    }
}

fn merge(object: &mut Value, other: Value) {
    match (object, other) {
        (Value::Object(object), Value::Object(other)) => {
            for (name, value) in other {
                merge(object.entry(name).or_insert(Value::Null), value);
            }
        }
        (object, other) => *object = other,
    }
}

fn filled(ty: &Type, count: usize, entries: Entries) -> Value {
    match ty {
        Type::List(items) => (0..count).map(|number| entry(items, number, entries)).collect(),
        Type::Strings(_) => (0..count).map(|number| text(number, entries)).collect(),
        Type::Map(values, _) => {
            let pairs = (0..count).map(|number| (format!("k{number}"), entry(values, number, entries)));
            Value::Object(pairs.collect())
        }
        _ => unreachable!("only lists and maps are filled"),
    }
}

fn text(number: usize, entries: Entries) -> Value {
    match entries {
        Entries::Distinct => json!(format!("v{number}")),
        Entries::Equal | Entries::EqualOrEmpty => json!("v"),
    }
}

fn entry(ty: &Type, number: usize, entries: Entries) -> Value {
    match ty {
        Type::Struct(of) if entries == Entries::EqualOrEmpty && number % 2 == 1 => {
            Value::Object(of.get().zero())
        }
        Type::Struct(of) => Value::Object(scalars(of.get(), number, entries, 1)),
        _ => scalar(ty, number, entries),
    }
}

/// The plain fields of a struct, and one entry for each of its lists.
fn scalars(of: &'static Struct, number: usize, entries: Entries, depth: usize) -> Map<String, Value> {
    let mut fields = Map::new();
    for field in of.all() {
        let value = match &field.ty {
            Type::List(items) if depth > 0 => match &**items {
                Type::Struct(of) => json!([scalars(of.get(), number, entries, 0)]),
                items => json!([scalar(items, number, entries)]),
            },
            Type::Map(values, _) if depth > 0 && !matches!(**values, Type::Struct(_) | Type::List(_)) => {
                json!({"k": scalar(values, number, entries)})
            }
            Type::Struct(_) | Type::List(_) | Type::Map(..) | Type::Strings(_) => continue,
            ty => scalar(ty, number, entries),
        };
        if !value.is_null() {
            fields.insert(field.name.to_owned(), value);
        }
    }
    fields
}

fn scalar(ty: &Type, number: usize, entries: Entries) -> Value {
    let number = if entries == Entries::Distinct { number } else { 1 };
    match ty {
        Type::String(_) => text(number, entries),
        Type::Int32(_) | Type::Int64(_) | Type::IntOrString | Type::Json => json!(number),
        Type::Bool(_) => json!(true),
        Type::Double => json!(0.5),
        Type::Bytes => json!("AAAA"),
        Type::Time => json!("2024-01-01T00:00:00Z"),
        Type::MicroTime => json!("2024-01-01T00:00:00.000000Z"),
        Type::Duration => json!("1s"),
        Type::Quantity => json!(number.to_string()),
        Type::FieldsV1 => json!({"f:data": {format!("f:k{number}"): {}}}),
        Type::RawExtension => json!({"a": number}),
        _ => Value::Null,
    }
}
