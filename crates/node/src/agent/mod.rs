//! The node agent: registration, node status, lease, serving certificate, eviction, image garbage collection, log rotation.
//!
//! ```text
//! node_agent            builds and runs the agent       tasks                  background tasks of the node
//! config                configuration and defaults      cluster_uid            UID of the cluster of a data directory
//! runtime_detection     finds the container runtime     runtime_monitor        readiness of the container runtime
//! machine               capacity and stats of the host  node/                  Node object and its lease
//! serving_certificate/  certificate of the kubelet API  tls                    TLS configuration and listener
//! eviction/             eviction manager                image_gc_manager       image garbage collection
//! host                  pods for eviction and server    container_log_manager  log rotation
//! ```
// upstream: pkg/kubelet/kubelet.go Kubelet; its syncLoop is in `pod/manager.rs`

mod cluster_uid;
mod cluster_uid_file;
mod config;
mod container_log_manager;
mod eviction;
mod host;
mod image_gc_manager;
mod machine;
mod node;
mod node_agent;
mod runtime_detection;
mod runtime_monitor;
mod serving_certificate;
mod tasks;
mod tls;

pub use self::{
    cluster_uid_file::owner_of_directory,
    config::{
        AgentConfig, EvictionConfig, ImageGcPolicy, InvalidNodeName, LogRotatePolicy, ShutdownConfig,
        default_node_name, parse_node_name,
    },
    eviction::{EvictionSignal, EvictionThreshold, ParseThresholdError, ThresholdValue, UnknownSignalError},
    node_agent::{NodeAgent, NodeAgentError},
    serving_certificate::ServingCertResolver,
};
