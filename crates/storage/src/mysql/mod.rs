//! A store in MySQL 8 or MariaDB 10.11 and newer, shared by any number of processes.
//!
//! Promises beyond those of the crate: a revision is taken inside the transaction that uses it, under
//! the lock of the one row that counts them, so that the order of commits is the order of revisions
//! and there is no gap for a reader to skip over; a commit whose answer was lost is looked up before
//! the writer gets an answer; deadlines are computed by the database's clock.
//!
//! All processes must talk to one primary server. A replica that lags, or a cluster that lets two
//! nodes accept writes before they agree, would break the promise that reads see every acknowledged
//! write.

mod backend;
mod commit_plan;
mod commit_publisher;
mod compaction;
mod connection;
mod expiries;
mod failure;
mod follower;
mod health;
mod history_mark;
mod import;
mod options;
mod pool;
mod range;
mod reads;
mod row;
mod schema;
mod statement;
mod store;
mod transaction;
mod url;
mod writer;

pub use self::{
    backend::MysqlBackend,
    options::{MysqlOptions, TlsMode},
    store::MysqlStore,
};

/// The name in errors and in the health answer.
const BACKEND: &str = "mysql";
