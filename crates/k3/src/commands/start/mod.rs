//! `k3 start`: flags, what they mean, and the life of the server.

mod access;
mod address;
mod audit;
mod controllers;
mod flags;
mod limits;
mod mysql_url;
mod report;
mod run;
mod storage;

pub(super) use self::{
    controllers::{CONTROLLERS_PATH, LEASE_PATH},
    flags::StartFlags,
    run::run,
};
