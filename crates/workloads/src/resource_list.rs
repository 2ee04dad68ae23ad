//! Amounts of resources as objects carry them.

use std::{collections::BTreeMap, fmt, ops::Deref};

use k3_quantity::{ParseError, Quantity};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

use crate::internable;

/// An amount: whole, and in thousandths; both rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceQuantity {
    /// The whole number.
    pub value: i64,
    /// Thousandths.
    pub milli: i64,
}

/// Amounts by the name of the resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
pub struct ResourceList(BTreeMap<Box<str>, ResourceQuantity>);

internable!(ResourceList);

// --- ResourceList ---

impl Deref for ResourceList {
    type Target = BTreeMap<Box<str>, ResourceQuantity>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl FromIterator<(Box<str>, ResourceQuantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (Box<str>, ResourceQuantity)>>(amounts: I) -> Self {
        ResourceList(amounts.into_iter().collect())
    }
}

// --- ResourceQuantity ---

impl ResourceQuantity {
    /// A quantity such as `500m`.
    pub(crate) fn parse(text: &str) -> Result<Self, ParseError> {
        let quantity: Quantity = text.parse()?;
        Ok(ResourceQuantity {
            value: quantity.value(),
            milli: quantity.milli_value(),
        })
    }

    /// A whole number.
    pub(crate) fn whole(number: i64) -> Self {
        ResourceQuantity {
            value: number,
            milli: number.saturating_mul(1000),
        }
    }
}

impl<'de> Deserialize<'de> for ResourceQuantity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = ResourceQuantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    /// `null` is zero in a list of resources, as upstream's quantities are.
    fn visit_unit<E: Error>(self) -> Result<ResourceQuantity, E> {
        Ok(ResourceQuantity::default())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ResourceQuantity, E> {
        ResourceQuantity::parse(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<ResourceQuantity, E> {
        Ok(ResourceQuantity::whole(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<ResourceQuantity, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<ResourceQuantity, E> {
        self.visit_str(&number.to_string())
    }
}
