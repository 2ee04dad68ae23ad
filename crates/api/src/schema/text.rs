//! Parser of the type table.
//!
//! The text is part of the program: a mistake in it is a bug, caught by the first test that touches the
//! table, so reading panics with the line rather than returning an error no caller could act upon.

use super::field::{Field, ListMergeKind, Type};
use crate::type_schema::Patch;
use serde_json::Value;

/// One file.
pub(super) struct TypePackage {
    /// Its name, such as `core`.
    pub(super) name: &'static str,
    /// Its version.
    pub(super) version: &'static str,
    /// Its API group; empty for the core group.
    pub(super) group: &'static str,
    /// Its types.
    pub(super) types: Vec<Entry>,
}

/// One type.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) is_kind: bool,
    pub(super) atomic: bool,
    pub(super) lines: Vec<&'static str>,
}

/// Where a type's name leads: the name as written, to the index in the table.
pub(super) type TypeLookup<'l> = &'l dyn Fn(&str) -> Option<super::field::StructRef>;

// --- TypePackage ---

impl TypePackage {
    /// Reads a file, without looking into the fields: types refer to each other freely, so all names must
    /// be known first.
    pub(super) fn read(text: &'static str) -> Self {
        let mut package = Self {
            name: "",
            version: "",
            group: "",
            types: Vec::new(),
        };
        for line in text.lines() {
            if let Some(field) = line.strip_prefix(' ') {
                let entry = package.types.last_mut().expect("a field follows its type");
                entry.lines.push(field);
            } else if let Some(rest) = line.strip_prefix("package ") {
                let (name, version) = rest.split_once(' ').expect("a package has a name and a version");
                (package.name, package.version) = (name, version);
            } else if let Some(group) = line.strip_prefix("group ") {
                package.group = if group == "-" { "" } else { group };
            } else if !line.is_empty() {
                package.types.push(Entry::read(line));
            }
        }
        package
    }
}

// --- Entry ---

impl Entry {
    fn read(line: &'static str) -> Self {
        let mut tokens = line.split(' ');
        let name = tokens.next().expect("split yields at least one word");
        let mut entry = Self {
            name,
            is_kind: false,
            atomic: false,
            lines: Vec::new(),
        };
        for word in tokens {
            match word {
                "kind" => entry.is_kind = true,
                "atomic" => entry.atomic = true,
                _ => panic!("type table: unknown mark in {line:?}"),
            }
        }
        entry
    }
}

// --- Field ---

impl Field {
    /// A field of text that protobuf does not carry: kind and apiVersion.
    pub(super) fn of_kind(name: &'static str) -> Self {
        Self::plain(0, name, Type::String("string"))
    }

    /// Reads a line.
    pub(super) fn read(line: &'static str, lookup: TypeLookup<'_>) -> Self {
        let mut tokens = line.split(' ');
        let mut word = || {
            tokens
                .next()
                .unwrap_or_else(|| panic!("type table: too short: {line:?}"))
        };
        let number = word()
            .parse()
            .unwrap_or_else(|_| panic!("type table: no number: {line:?}"));
        let name = word();
        let spelled = word();
        let base = spelled.strip_prefix('*');
        let mut field = Self::plain(
            number,
            if name == "-" { "" } else { name },
            read_type(base.unwrap_or(spelled), lookup)
                .unwrap_or_else(|| panic!("type table: unknown type: {line:?}")),
        );
        field.pointer = base.is_some();
        for mark in tokens {
            field.mark(mark, line);
        }
        // A scalar that is written even if it is zero has its zero value when it is left out.
        let scalar = matches!(
            field.ty,
            Type::String(_) | Type::Int32(_) | Type::Int64(_) | Type::Bool(_) | Type::Double
        );
        if field.default.is_none() && scalar && field.shown && !field.pointer {
            field.default = Some(field.ty.zero());
        }
        field
    }

    fn plain(number: u32, name: &'static str, ty: Type) -> Self {
        Self {
            name,
            number,
            ty,
            pointer: false,
            shown: false,
            omit_zero: false,
            required: false,
            listing: ListMergeKind::Atomic,
            atomic: false,
            patch: Patch::default(),
            default: None,
        }
    }

    fn mark(&mut self, mark: &'static str, line: &str) {
        let (name, value) = mark.split_once('=').unwrap_or((mark, ""));
        match name {
            "shown" => self.shown = true,
            "omitzero" => self.omit_zero = true,
            "required" => self.required = true,
            "set" => self.listing = ListMergeKind::Set,
            "keys" => self.listing = ListMergeKind::Keys(value.split(',').map(str::to_owned).collect()),
            "atomic" => self.set_atomic(true),
            "granular" => self.set_atomic(false),
            "patch" => {
                let (strategies, key) = value.split_once(':').map_or((value, None), |(s, k)| (s, Some(k)));
                self.patch.merge_key = key;
                for strategy in strategies.split(',') {
                    match strategy {
                        "merge" => self.patch.merge = true,
                        "retainKeys" => self.patch.retain_keys = true,
                        "replace" => self.patch.replace = true,
                        "" => {}
                        _ => panic!("type table: unknown strategy: {line:?}"),
                    }
                }
            }
            "default" => {
                let value: Value = serde_json::from_str(value)
                    .unwrap_or_else(|_| panic!("type table: the default is not JSON: {line:?}"));
                self.default = Some(value);
            }
            _ => panic!("type table: unknown mark {mark:?}: {line:?}"),
        }
    }

    fn set_atomic(&mut self, atomic: bool) {
        match &mut self.ty {
            Type::Struct(of) => of.atomic = Some(atomic),
            Type::Map(..) => self.atomic = atomic,
            _ => {}
        }
    }
}

fn read_type(spelled: &'static str, lookup: TypeLookup<'_>) -> Option<Type> {
    if let Some(items) = spelled.strip_prefix("[]") {
        return Some(Type::List(Box::new(read_type(items, lookup)?)));
    }
    if let Some(rest) = spelled.strip_prefix('{') {
        let (name, values) = rest.split_once('}')?;
        let name = (!name.is_empty()).then_some(name);
        return Some(Type::Map(Box::new(read_type(values, lookup)?), name));
    }
    let (base, name) = spelled.split_once('/').unwrap_or((spelled, spelled));
    Some(match base {
        "string" => Type::String(name),
        "int32" => Type::Int32(name),
        "int64" => Type::Int64(name),
        "bool" => Type::Bool(name),
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "Time" => Type::Time,
        "MicroTime" => Type::MicroTime,
        "Duration" => Type::Duration,
        "Quantity" => Type::Quantity,
        "IntOrString" => Type::IntOrString,
        "RawExtension" => Type::RawExtension,
        "FieldsV1" => Type::FieldsV1,
        "JSON" => Type::Json,
        "JSONSchemaPropsOrBool" => Type::SchemaOrBool,
        "JSONSchemaPropsOrArray" => Type::SchemaOrArray,
        "JSONSchemaPropsOrStringArray" => Type::SchemaOrStrings,
        "Strings" => Type::Strings(name),
        _ => Type::Struct(lookup(base)?),
    })
}
