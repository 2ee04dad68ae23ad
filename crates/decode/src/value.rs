//! A deserializer of JSON trees that reads `null` as Go does.

use std::cell::Cell;

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, Expected, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Error, Map, Value};

/// A value of a tree.
#[derive(Clone, Copy)]
pub(crate) struct ValueDeserializer<'v> {
    value: &'v Value,
    nulls: Nulls,
}

/// The meaning of `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// A struct does not see its field, and takes its default; an element and a value have the zero value of their type.
    Absent,
    /// The zero value of its type, a field too.
    Zero,
    /// Nothing, also as an element or a value.
    Dropped,
}

struct Elements<'v> {
    values: std::slice::Iter<'v, Value>,
    nulls: Nulls,
}

/// The members of an object: those with a value first, then those that are `null`.
struct Members<'v, I> {
    present: I,
    null: std::vec::IntoIter<&'v str>,
    value: &'v Value,
    nulls: Nulls,
    names: Cell<MemberNames>,
}

struct NameDeserializer<'v> {
    name: &'v str,
    names: &'v Cell<MemberNames>,
}

/// How the names of members are read. Structs with flattened parts are not known as structs by other means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberNames {
    /// As names of fields.
    Fields,
    /// As keys of a map.
    Keys,
}

/// The name by which `serde_json` knows that the text of a value is wanted.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// The zero value of Go's times.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

static NULL: Value = Value::Null;

// --- ValueDeserializer ---

impl<'v> ValueDeserializer<'v> {
    pub(crate) fn new(value: &'v Value, nulls: Nulls) -> Self {
        ValueDeserializer { value, nulls }
    }

    fn members(
        self,
        members: &'v Map<String, Value>,
        names: MemberNames,
    ) -> Members<'v, impl Iterator<Item = (&'v str, &'v Value)>> {
        let null: Vec<&str> = members
            .iter()
            .filter(|(_, value)| value.is_null() && self.nulls != Nulls::Dropped)
            .map(|(name, _)| name.as_str())
            .collect();
        Members {
            present: members
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.as_str(), value)),
            null: null.into_iter(),
            value: &NULL,
            nulls: self.nulls,
            names: Cell::new(names),
        }
    }

    /// The members of a struct that is `null`: all of them are.
    fn null_members(
        self,
        fields: &'static [&'static str],
    ) -> Members<'static, std::iter::Empty<(&'static str, &'static Value)>> {
        Members {
            present: std::iter::empty(),
            null: supplied(fields).collect::<Vec<_>>().into_iter(),
            value: &NULL,
            nulls: self.nulls,
            names: Cell::new(MemberNames::Fields),
        }
    }
}

/// The fields that have a zero value: what an object is, types know themselves, and items of lists do not say.
fn supplied(fields: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    let is_type = |field: &&str| ["apiVersion", "kind"].contains(field);
    fields.iter().copied().filter(move |field| !is_type(field))
}

/// Functions that differ by the zero value of a type alone.
macro_rules! zero {
    ($visit:ident($zero:expr) => $($function:ident)*) => {
        $(fn $function<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            if self.value.is_null() {
                visitor.$visit($zero)
            } else {
                self.deserialize_any(visitor)
            }
        })*
    };
}

impl<'de> Deserializer<'de> for ValueDeserializer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_str(text),
            Value::Array(values) => visitor.visit_seq(Elements {
                values: values.iter(),
                nulls: self.nulls,
            }),
            Value::Object(members) => visitor.visit_map(self.members(members, MemberNames::Keys)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == RAW_VALUE {
            return self.value.clone().deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(members) => {
                let mut all = self.members(members, MemberNames::Fields);
                if self.nulls == Nulls::Zero {
                    // For Go a field that is absent is no other than one that is `null`.
                    let mut null: Vec<&str> = all.null.collect();
                    for field in supplied(fields) {
                        if !members.contains_key(field) {
                            null.push(field);
                        }
                    }
                    all.null = null.into_iter();
                }
                visitor.visit_map(all)
            }
            Value::Null => visitor.visit_map(self.null_members(fields)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_enum("".into_deserializer()),
            Value::String(variant) => visitor.visit_enum(variant.as_str().into_deserializer()),
            Value::Object(members) => visitor.visit_enum(MapAccessDeserializer::new(
                self.members(members, MemberNames::Keys),
            )),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if !self.value.is_null() {
            return self.deserialize_any(visitor);
        }
        // Times are text to a deserializer, and only name their type in the error text.
        let expected = (&visitor as &dyn Expected).to_string();
        visitor.visit_str(if expected.contains("timestamp") {
            ZERO_TIME
        } else {
            ""
        })
    }

    zero! { visit_bool(false) => deserialize_bool }
    zero! { visit_i64(0) => deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 }
    zero! { visit_u64(0) => deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 }
    zero! { visit_f64(0.0) => deserialize_f32 deserialize_f64 }
    zero! { visit_str("") => deserialize_char deserialize_string deserialize_identifier }
    zero! { visit_bytes(b"") => deserialize_bytes deserialize_byte_buf }
    zero! { visit_seq(SeqDeserializer::new(std::iter::empty::<()>())) => deserialize_seq }
    zero! { visit_map(MapDeserializer::new(std::iter::empty::<((), ())>())) => deserialize_map }

    forward_to_deserialize_any! { unit unit_struct ignored_any }
}

// --- Elements ---

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let is_dropped = |value: &&Value| value.is_null() && self.nulls == Nulls::Dropped;
        let element = self.values.find(|value| !is_dropped(value));
        let element = element.map(|value| seed.deserialize(ValueDeserializer::new(value, self.nulls)));
        element.transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        // At most.
        Some(self.values.len())
    }
}

// --- Members ---

impl<'de, 'v, I: Iterator<Item = (&'v str, &'v Value)>> MapAccess<'de> for Members<'v, I> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let name = if let Some((name, value)) = self.present.next() {
            self.value = value;
            name
        } else if self.names.get() == MemberNames::Fields && self.nulls != Nulls::Zero {
            return Ok(None);
        } else if let Some(name) = self.null.next() {
            self.value = &NULL;
            name
        } else {
            return Ok(None);
        };
        let names = &self.names;
        seed.deserialize(NameDeserializer { name, names }).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(ValueDeserializer::new(self.value, self.nulls))
    }
}

// --- NameDeserializer ---

impl<'de> Deserializer<'de> for NameDeserializer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.name)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.names.set(MemberNames::Fields);
        visitor.visit_str(self.name)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let name: StrDeserializer<'_, Error> = self.name.into_deserializer();
        visitor.visit_enum(name)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct ignored_any
    }
}
