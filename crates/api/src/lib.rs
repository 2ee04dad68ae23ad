//! Kubernetes API types: kinds, decoding, validation, defaulting, patches, apply. Pure functions over JSON trees.
//!
//! An object is a `serde_json::Value`. A type, built in or from a custom resource definition, is seen
//! through [`type_schema::TypeSchema`]: which fields there are, how lists and maps are merged. No clocks, no I/O:
//! time and randomness are passed in.

pub mod admission;
pub mod apply;
pub mod bootstrap;
pub mod cron;
pub mod custom;
pub mod decode;
pub mod encode;
pub mod field;
pub mod go;
pub mod kinds;
pub mod limits;
pub mod name;
pub mod patch;
pub mod protobuf;
pub mod quota;
pub mod schema;
pub mod selector;
pub mod status;
pub mod strategy;
pub mod text;
pub mod time;
pub mod type_schema;

pub use k3_cel::base64;
pub use k3_quantity as quantity;
