//! A control plane in this process: the store, the API server, and what runs beside it.
//!
//! Promises: what it is told is plain data, of which any number can be in force at once in one process; it hears no signals and
//! prints nothing but to the log; it ends in order, first those who use the API, then the API, then the store.

mod address;
mod listener;
mod node;
mod parts;
mod plane;
mod renewal;
mod settings;

pub(crate) use self::{
    plane::ControlPlane,
    settings::{ISSUER, NodeSettings, SERVICE_RANGE, Settings},
};
