//! Databases on demand: a database server on this machine that does not run is started as a container.
//!
//! ```text
//! settings        flags
//! endpoint        whether the store is on this machine, and whether its port is in use
//! container_spec  the container of a database                             (pure)
//! password        the generated password
//! lifecycle       starts, waits for and stops a database
//! ```
//!
//! Nothing is started for a remote address or a port in use. A running database is used and never stopped. Containers that this
//! process started are stopped and removed; their volumes stay. Other containers are never changed. Passwords are random.

mod container_spec;
mod endpoint;
mod lifecycle;
mod password;
mod settings;

pub(crate) use self::{
    container_spec::INSTANCE_LABEL,
    lifecycle::with_database,
    settings::{Autostart, DatabaseFlags, DatabaseSettings, database_images},
};
