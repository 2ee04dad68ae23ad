//! Objects of every kind for tests of code that reads them, generated from the types of the API.
//!
//! Promises: for each field of a kind, at any depth, there is an object in which that field is `null`; for each list and each
//! map one with an element that is `null`. Nothing else is set but name, namespace and what is around the field.

mod null;
mod served;

pub use self::{
    null::null_objects,
    served::{put_null_objects, served_kinds, stored},
};
