//! Namespaces that go: everything in them goes first.

mod conditions;
mod deleter;
