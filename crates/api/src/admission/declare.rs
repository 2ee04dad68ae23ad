//! Declares the CEL type of an object of a kind.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go declType

use k3_cel::{DeclType, ListKind, ObjectDeclType, Shape, UNBOUNDED};

use crate::{
    custom::Definition,
    schema::{Struct, Type, schema},
};

/// What objects of a built-in kind look like; `None` if it is not built in.
pub fn declared(group: &str, version: &str, kind: &str) -> Option<DeclType> {
    let found = schema().kind(group, version, kind)?.get();
    Some(object(found, &mut Vec::new()).named(kind))
}

/// What objects of a custom kind look like in a version; `None` if nothing is known of them.
pub fn declared_custom(definition: &Definition, version: &str) -> Option<DeclType> {
    let own = definition.version(version)?.strategy.declared()?;
    let Shape::Object(own) = own.shape else {
        return None;
    };
    let metadata = schema().get("meta", "v1", "ObjectMeta")?.get();
    let metadata = object(metadata, &mut Vec::new());
    let whole = ObjectDeclType::clone(&own).field("metadata", metadata);
    Some(DeclType::object(whole).named(&definition.names.kind))
}

/// `within`: the structs it is a part of. One that is a part of itself has no fields there.
fn object(of: &'static Struct, within: &mut Vec<(&'static str, &'static str)>) -> DeclType {
    let name = (of.package, of.name);
    if within.contains(&name) {
        return DeclType::object(ObjectDeclType::default());
    }
    within.push(name);
    let mut fields = ObjectDeclType::default();
    if of.is_kind {
        fields = fields
            .field("kind", Shape::String)
            .field("apiVersion", Shape::String);
    }
    for field in of.all() {
        if let Some(decl) = declare(&field.ty, within) {
            fields = fields.field(field.name, decl);
        }
    }
    within.pop();
    DeclType::object(fields)
}

/// Amounts are numbers or texts, which expressions cannot distinguish; so they see nothing of them.
fn declare(ty: &Type, within: &mut Vec<(&'static str, &'static str)>) -> Option<DeclType> {
    Some(match ty {
        Type::String(_) | Type::Duration => Shape::String.into(),
        Type::Int32(_) | Type::Int64(_) => Shape::Int.into(),
        Type::Bool(_) => Shape::Bool.into(),
        Type::Double => Shape::Double.into(),
        Type::Bytes => Shape::Bytes.into(),
        Type::Time | Type::MicroTime => Shape::Timestamp.into(),
        Type::IntOrString => Shape::IntOrString.into(),
        Type::RawExtension | Type::FieldsV1 => DeclType::object(ObjectDeclType::default()),
        Type::Quantity | Type::Json | Type::SchemaOrBool | Type::SchemaOrArray | Type::SchemaOrStrings => {
            return None;
        }
        Type::Strings(_) => DeclType::list(Shape::String.into(), ListKind::Atomic, UNBOUNDED),
        Type::Struct(found) => object(found.get(), within),
        Type::List(items) => DeclType::list(declare(items, within)?, ListKind::Atomic, UNBOUNDED),
        Type::Map(values, _) => DeclType::map(declare(values, within)?, UNBOUNDED),
    })
}
