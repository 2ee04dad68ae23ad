//! The object type of a kind: built in, or from a CustomResourceDefinition.

use std::{fmt, sync::Arc};

use serde_json::{Map, Value};

use super::StructRef;
use crate::{
    decode::{self, DecodeError, DecodedBody, StrictError},
    field::Error as FieldError,
    type_schema::{Shape, TypeSchema},
};

/// The type of the objects of a kind.
#[derive(Clone)]
pub enum ObjectType {
    /// A struct of the table.
    Builtin(StructRef),
    /// A custom resource definition.
    Custom(Arc<dyn CustomType>),
}

/// A type that a definition declares.
pub trait CustomType: Send + Sync {
    /// What patches and apply see of it.
    fn typed(&self) -> &dyn TypeSchema;

    /// Brings a tree of a request into form: metadata as all objects have them, nothing that the type does not know. Gives the
    /// paths of what was left out, or why the tree cannot be read.
    fn settle(&self, object: &mut Value) -> Result<Vec<String>, SettleError>;
}

/// Why a tree is not an object of its type.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettleError {
    /// Its metadata has another type.
    #[error(transparent)]
    Metadata(#[from] DecodeError),
    /// Its metadata is not an object.
    #[error("invalid metadata: expected object")]
    NoObject,
    /// An object inside is not one.
    #[error(transparent)]
    Embedded(#[from] Box<FieldError>),
}

// --- ObjectType ---

impl ObjectType {
    /// The struct of the table, if it is one.
    pub fn table(&self) -> Option<StructRef> {
        match self {
            ObjectType::Builtin(of) => Some(*of),
            ObjectType::Custom(_) => None,
        }
    }

    /// Decodes an object in JSON.
    pub fn json(&self, body: &[u8]) -> Result<DecodedBody, DecodeError> {
        match self {
            ObjectType::Builtin(of) => decode::json(body, *of),
            ObjectType::Custom(of) => settled(decode::untyped(body)?, &**of),
        }
    }

    /// Decodes an object that was read as YAML: `text` is its tree as JSON.
    pub fn yaml_tree(&self, tree: DecodedBody, text: &[u8]) -> Result<DecodedBody, DecodeError> {
        match self {
            ObjectType::Builtin(of) => decode::yaml_tree(tree, text, *of),
            ObjectType::Custom(of) => settled(tree, &**of),
        }
    }

    /// Brings a tree into normal form, as if it were a request body.
    pub fn normalize(&self, value: &Value) -> Result<DecodedBody, DecodeError> {
        match self {
            ObjectType::Builtin(of) => decode::normalize(value, *of),
            ObjectType::Custom(of) => {
                let decoded = DecodedBody {
                    value: value.clone(),
                    strict_errors: decode::StrictErrors::default(),
                };
                settled(decoded, &**of)
            }
        }
    }

    /// The same in place, if there is nothing to report. Otherwise returns false, and the tree is unchanged.
    pub fn normalize_in_place(&self, value: &mut Value) -> bool {
        match self {
            ObjectType::Builtin(of) => decode::normalize_in_place(value, *of),
            // What a definition leaves out is found while it is left out.
            ObjectType::Custom(_) => false,
        }
    }

    /// An object of which nothing is set.
    pub fn zero(&self) -> Map<String, Value> {
        match self {
            ObjectType::Builtin(of) => of.get().zero(),
            ObjectType::Custom(_) => Map::new(),
        }
    }

    /// Makes empty lists and maps that are always written `null`.
    pub fn forget_empty(&self, object: &mut Value) {
        if let ObjectType::Builtin(of) = self {
            of.get().forget_empty(object);
        }
    }
}

fn settled(mut decoded: DecodedBody, of: &dyn CustomType) -> Result<DecodedBody, DecodeError> {
    let unknown = of
        .settle(&mut decoded.value)
        .map_err(|error| DecodeError::Type(error.to_string()))?;
    for path in unknown {
        decoded.strict_errors.add(StrictError::Unknown(path));
    }
    Ok(decoded)
}

impl TypeSchema for ObjectType {
    fn shape(&self) -> Shape<'_> {
        match self {
            ObjectType::Builtin(of) => of.shape(),
            ObjectType::Custom(of) => of.typed().shape(),
        }
    }
}

impl From<StructRef> for ObjectType {
    fn from(of: StructRef) -> Self {
        ObjectType::Builtin(of)
    }
}

impl fmt::Debug for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectType::Builtin(of) => of.fmt(f),
            ObjectType::Custom(_) => f.write_str("Custom"),
        }
    }
}
