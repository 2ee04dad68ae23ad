//! The API server: from a request to a commit, and from a commit to every watcher.

mod admission;
mod allocation;
mod audit;
mod authn;
mod authz;
mod bootstrap;
mod cache;
mod config;
mod custom;
mod discovery;
mod endpoint_reconciler;
mod http;
mod metrics;
mod openapi;
mod outgoing;
mod pipeline;
mod read_only_store;
mod registry;
mod request;
mod server;
mod service_range;
mod usage;

pub use k3_api::{name::Subnet, strategy::User};

pub use self::{
    audit::{AuditConfig, AuditLogFile, AuditPolicy, AuditPolicyContentError, AuditPolicyError},
    authn::{
        Anonymous, Authentication, BadEphemeralToken, BadPublicKey, BadSigningKey, EphemeralToken,
        KubectlRule, PublicKey, TokenFile, TokenFileError, TokenFileProblem,
    },
    config::{Config, Limits, NODE_CLIENT_USER, NodeClient, PodAccounts},
    discovery::version,
    endpoint_reconciler::EndpointReconcilerType,
    http::BodyError,
    outgoing::{CertificateVerifier, TlsVerifier},
    server::{InProcessBody, InProcessTransport, Server, StartError},
    service_range::{BadServiceRange, kubernetes_address, service_range},
};
