//! The API server: from a request to a commit, and from a commit to every watcher.

mod authn;
mod config;
mod discovery;
mod http;
mod service_range;

pub use k3_api::name::Subnet;

pub use self::{
    authn::{BadCertificate, Certificate, TokenFile, TokenFileError, TokenFileProblem},
    config::Config,
    service_range::{BadServiceRange, kubernetes_address, service_range},
};
