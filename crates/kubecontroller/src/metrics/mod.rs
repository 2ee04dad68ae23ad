//! The figures of controllers.
