//! Amounts of resources as objects carry them.

use std::{collections::BTreeMap, fmt};

use k3_quantity::Quantity;
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// An amount: whole, and in thousandths; both rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The whole number.
    pub value: i64,
    /// Thousandths.
    pub milli: i64,
}

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, Amount>;

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    /// `null` is zero in a list of resources, as upstream's quantities are.
    fn visit_unit<E: Error>(self) -> Result<Amount, E> {
        Ok(Amount::default())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        let quantity: Quantity = text.parse().map_err(E::custom)?;
        Ok(Amount {
            value: quantity.value(),
            milli: quantity.milli_value(),
        })
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount {
            value: number,
            milli: number.saturating_mul(1000),
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }
}
