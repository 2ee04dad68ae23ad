//! Label and field selectors.

pub mod field;
pub mod label;
