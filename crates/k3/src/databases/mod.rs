//! Databases on demand: a MySQL or an etcd of this machine that is not there is started as a container.
//!
//! ```text
//! settings   what may be done, from the flags
//! address    whether the store is on this machine, and whether somebody listens there
//! plan       the container that would serve it                             (pure)
//! password   the password that nobody gave
//! life       from nothing to a database that answers, and to its end
//! ```
//!
//! Promises: nothing is started for an address of another machine, or where somebody listens; what runs already is used and never
//! stopped; what this process started it stops and removes, and the volume with the data stays; a container of somebody else is
//! never touched; there is no password that others could know.

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
