//! Random objects in normal form, for property tests.

use super::{Field, Struct, StructRef, Type, schema};
use crate::base64;
use crate::decode::Precision;
use crate::time::Time;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A random object of a random kind, with its type. Lists and maps that are there are not empty, and objects
/// within objects have no `kind`: protobuf carries no kind.
pub(crate) fn object() -> impl Strategy<Value = (StructRef, Value)> {
    let kinds: Vec<StructRef> = schema().structs().filter(|of| of.get().is_kind).collect();
    (0..kinds.len(), any::<u64>()).prop_map(move |(choice, seed)| {
        let mut rng = Rng(seed | 1);
        (kinds[choice], Value::Object(rng.object(kinds[choice].get(), 5)))
    })
}

/// Small random numbers from a seed.
struct Rng(u64);

// --- Rng ---

impl Rng {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 11) % u64::from(sides)).unwrap()
    }

    fn pick<T, const N: usize>(&mut self, mut choices: [T; N]) -> T
    where
        T: Default,
    {
        let choice = self.roll(u32::try_from(N).unwrap()) as usize;
        std::mem::take(&mut choices[choice])
    }

    fn object(&mut self, of: &Struct, depth: u32) -> Map<String, Value> {
        let mut object = Map::new();
        for field in of.all() {
            if field.number == 0 || self.roll(3) > 0 && depth > 0 && !field.required {
                continue;
            }
            let value = self.field(field, depth);
            if !field.leaves_out(&value) {
                object.insert(field.name.to_owned(), value);
            }
        }
        of.complete(&mut object);
        object
    }

    fn field(&mut self, field: &Field, depth: u32) -> Value {
        let value = self.value(&field.ty, depth);
        // A pointer to nothing is none.
        if field.pointer && value.is_null() {
            Value::Null
        } else {
            value
        }
    }

    fn value(&mut self, ty: &Type, depth: u32) -> Value {
        let below = depth.saturating_sub(1);
        match ty {
            Type::String(_) => Value::from(self.text()),
            Type::Int32(_) => Value::from(self.pick([0, 1, -1, 80, i32::MAX, i32::MIN])),
            Type::Int64(_) => Value::from(self.pick([0, 1, -1, 300, i64::MAX, i64::MIN])),
            Type::Bool(_) => Value::Bool(self.roll(2) == 0),
            Type::Double => self.pick([json!(0), json!(3), json!(0.5), json!(-1.25), json!(1e300)]),
            Type::Bytes => {
                let bytes: Vec<u8> = (0..self.roll(5))
                    .map(|_| u8::try_from(self.roll(256)).unwrap())
                    .collect();
                Value::String(base64::encode(&bytes))
            }
            Type::Time => self.time(Precision::Second),
            Type::MicroTime => self.time(Precision::Microsecond),
            Type::Duration => Value::from("1h0m0s"),
            Type::Quantity => Value::from(self.pick(["0", "100m", "2Gi", "1"])),
            Type::IntOrString => self.pick([json!(0), json!(80), json!("http"), json!("")]),
            Type::RawExtension | Type::FieldsV1 | Type::Json => self.any(3),
            Type::SchemaOrBool if self.roll(2) == 0 => Value::Bool(self.roll(2) == 0),
            Type::SchemaOrArray if self.roll(2) == 0 && depth > 0 => {
                json!([Value::Object(self.object(schema().json_schema().get(), 0))])
            }
            Type::SchemaOrStrings if self.roll(2) == 0 => json!(["a", "b"]),
            Type::SchemaOrBool | Type::SchemaOrArray | Type::SchemaOrStrings => {
                Value::Object(if depth == 0 {
                    Map::new()
                } else {
                    self.object(schema().json_schema().get(), 0)
                })
            }
            Type::Struct(of) if depth == 0 => Value::Object(of.get().zero()),
            Type::Struct(of) => Value::Object(self.object(of.get(), below)),
            Type::List(_) | Type::Map(..) if depth == 0 => Value::Null,
            Type::List(items) => Value::Array((0..=self.roll(2)).map(|_| self.value(items, below)).collect()),
            Type::Strings(_) => Value::Array((0..=self.roll(2)).map(|_| Value::from(self.text())).collect()),
            Type::Map(values, _) => {
                let pairs = (0..=self.roll(2)).map(|_| (self.text(), self.value(values, below)));
                Value::Object(pairs.collect())
            }
        }
    }

    fn text(&mut self) -> String {
        self.pick(["", "a", "web-1", "f\u{fc}r", "a \"quoted\" line\n", "\u{1f980}"])
            .to_owned()
    }

    fn time(&mut self, precision: Precision) -> Value {
        let seconds = i64::from(self.roll(4_000_000_000)) - 1_000_000_000;
        let nanos = self.roll(1_000_000) * 1000;
        Value::String(precision.write(Time::from_unix(seconds, nanos)))
    }

    fn any(&mut self, depth: u32) -> Value {
        match self.roll(if depth == 0 { 3 } else { 5 }) {
            0 => json!(self.roll(1000)),
            1 => json!(self.text()),
            2 => json!(true),
            3 => Value::Array((0..self.roll(3)).map(|_| self.any(depth - 1)).collect()),
            _ => Value::Object(
                (0..self.roll(3))
                    .map(|_| (self.text(), self.any(depth - 1)))
                    .collect(),
            ),
        }
    }
}
