//! The types of the built-in kinds: one table, read once, that decoding, protobuf, patches and apply share.
//!
//! Promises: every kind of the stable API is here with every type it reaches; the table knows of each field
//! its JSON name, its protobuf number, whether it may be absent, and how it is merged. Looking a type up
//! costs a hash; the table is read on first use, in about a millisecond.
//!
//! The table is text, a file per API group and version under `types/`:
//!
//! ```text
//! package apps v1                 name and version of the package, as protobuf and Go error texts have them
//! group apps                      the API group; `-` is the core group
//!
//! Deployment kind                 a type; `kind` states that it carries kind and apiVersion,
//!                                 `atomic` that it is replaced as a whole
//!  1 metadata meta.v1.ObjectMeta  a field: protobuf number, JSON name, type, marks
//!  2 spec DeploymentSpec required
//! ```
//!
//! The JSON name `-` is a message whose fields stand inline in the JSON form. Types: `string`, `int32`,
//! `int64`, `bool`, `double`, `bytes`, the well-known types (see [`Type`]), `Name` of the same package,
//! `package.version.Name`, `[]T` a list, `{}T` a map from strings, `*T` a T that may be absent even where
//! its zero value is not. What follows a `/`, or stands between the braces of a map, is the name that
//! error texts use. Marks:
//!
//! | mark | meaning |
//! | --- | --- |
//! | `shown` | the zero value is written out, too |
//! | `omitzero` | the zero value of this struct-like type is left out |
//! | `required` | validation wants it |
//! | `keys=a,b` | a list of objects identified by these fields |
//! | `set` | a list of scalars, each at most once |
//! | `atomic` | a list, map or object that apply replaces as a whole |
//! | `granular` | an object that apply merges here although its type is atomic |
//! | `patch=merge:key` | what a strategic merge patch does |
//! | `default=` | the value (JSON, no spaces) of a field that is left out |

mod field;
mod merging;
mod object_type;
#[cfg(test)]
pub(crate) mod samples;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod zero;

pub use self::field::{Field, ListMergeKind, Struct, StructRef, Type};
pub use self::object_type::{CustomType, ObjectType, SettleError};
pub use self::table::{Schema, schema};
