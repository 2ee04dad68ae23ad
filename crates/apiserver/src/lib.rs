//! The API server: from a request to a commit, and from a commit to every watcher.

mod admission;
mod allocation;
mod authn;
mod authz;
mod bootstrap;
mod cache;
mod config;
mod custom;
mod discovery;
mod http;
mod openapi;
mod outgoing;
mod registry;
mod request;
mod server;
mod service_range;

pub use k3_api::name::Subnet;

pub use self::{
    authn::{BadCertificate, Certificate, TokenFile, TokenFileError, TokenFileProblem},
    config::Config,
    server::{Server, StartError},
    service_range::{BadServiceRange, kubernetes_address, service_range},
};
