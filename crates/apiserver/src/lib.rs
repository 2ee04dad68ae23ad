//! The API server: from a request to a commit, and from a commit to every watcher.

mod authn;
mod config;
mod discovery;
mod http;

pub use self::{
    authn::{BadCertificate, Certificate, TokenFile, TokenFileError, TokenFileProblem},
    config::Config,
};
