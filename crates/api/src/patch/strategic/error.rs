//! Errors of strategic merge patches.

use serde_json::Value;

use super::Object;
use crate::{go, status::Status};

/// Why a strategic merge patch does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not an object.
    #[error("{0}")]
    Malformed(String),
    /// `$deleteFromPrimitiveList` without the name of a list.
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    /// `$retainKeys` is no list, or the patch sets a field that it does not name.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// `$setElementOrder` without the name of a list.
    #[error("invalid patch format of setElementOrder list")]
    SetElementOrder,
    /// The type has no plan at all.
    #[error("strategic merge patch format is not supported")]
    NotSupported,
    /// An item of a list to merge is a list.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// An item has no value for the field that identifies items.
    #[error("map: {map} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The item.
        map: String,
        /// The field.
        key: String,
    },
    /// `$patch` has an unknown value.
    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownDirective {
        /// What it states.
        directive: String,
        /// The object it stands in.
        map: String,
    },
    /// `$patch: merge` in a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeInList,
    /// Items of the patch do not follow `$setElementOrder`.
    #[error("The order in patch list:\n{list}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch {
        /// The items of the patch.
        list: String,
        /// The order.
        order: String,
    },
    /// A value of one type stands where another should.
    #[error("expected a {wanted}, but received a {found}")]
    WrongType {
        /// The type that should be there.
        wanted: &'static str,
        /// The type that is there.
        found: &'static str,
    },
    /// A list has items of several types.
    #[error("list element types are not identical: {0}")]
    MixedList(String),
    /// An order is given to lists that are empty.
    #[error("no elements in any of the given slices")]
    EmptyLists,
    /// The type merges objects, and declares no merge key.
    #[error("cannot merge lists without merge key for {0}")]
    NoPlan(&'static str),
    /// The type has no such field.
    #[error("unable to find api field in struct {ty} for the json field {}", go::quote(.field))]
    NoSuchField {
        /// What the type is called.
        ty: String,
        /// The field.
        field: String,
    },
    /// Objects or lists inside something that has no fields.
    #[error("merging an object in json but data type is not struct, instead is: {0}")]
    NotAStruct(&'static str),
    /// A list where the type has none.
    #[error("expected slice or array type, but got: struct")]
    NotAList,
    /// The type has lists of lists.
    #[error("unexpected slice of slice")]
    ListOfListTypes,
    /// To merge it costs far more than the sizes of patch and object.
    #[error("the patch names the same items of long lists too often")]
    TooMuchWork,
}

// --- Error ---

impl Error {
    /// The answer to the client. Most errors are reported as if they were the server's: as upstream does.
    pub fn status(&self) -> Status {
        match self {
            Error::Malformed(_)
            | Error::PrimitiveList
            | Error::RetainKeys
            | Error::SetElementOrder
            | Error::NotSupported => Status::bad_request(self.to_string()),
            Error::TooMuchWork => Status::request_entity_too_large(self),
            Error::ListOfLists => Status::generic(422, &self.to_string()),
            _ => Status::unknown(self.to_string()),
        }
    }

    pub(super) fn no_such_field(ty: &str, field: &str) -> Self {
        Error::NoSuchField {
            ty: ty.to_owned(),
            field: field.to_owned(),
        }
    }

    pub(super) fn no_merge_key(map: &Object, key: &str) -> Self {
        Error::NoMergeKey {
            map: go::plain_map(map),
            key: key.to_owned(),
        }
    }

    pub(super) fn unknown_directive(directive: &Value, map: &Object) -> Self {
        let directive = match directive {
            Value::String(text) => text.clone(),
            Value::Null => "%!s(<nil>)".to_owned(),
            other => format!("%!s({}={})", go::type_name(other), go::plain(other)),
        };
        Error::UnknownDirective {
            directive,
            map: go::plain_map(map),
        }
    }

    pub(super) fn not_an_object(found: &Value) -> Self {
        Error::WrongType {
            wanted: "map[string]interface {}",
            found: go::type_name(found),
        }
    }

    pub(super) fn not_a_list(found: &Value) -> Self {
        Error::WrongType {
            wanted: "[]interface {}",
            found: go::type_name(found),
        }
    }
}
