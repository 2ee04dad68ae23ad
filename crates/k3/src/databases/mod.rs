//! Databases on demand: a MySQL or an etcd of this machine that is not there is started as a container.
//!
//! ```text
//! settings        flags
//! endpoint        whether the store is on this machine, and whether its port is in use
//! container_spec  the container of a database                             (pure)
//! password        the generated password
//! lifecycle       starts, waits for and stops a database
//! ```
//!
//! Promises: nothing is started for a remote address or a port in use; a running database is used and never
//! stopped; containers that this process started are stopped and removed, their volumes stay; other containers are
//! never touched; passwords are random.

mod container_spec;
mod endpoint;
mod lifecycle;
mod password;
mod settings;

pub(crate) use self::{
    container_spec::INSTANCE_LABEL,
    lifecycle::with_database,
    settings::{Autostart, DatabaseFlags, Settings},
};
