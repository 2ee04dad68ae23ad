//! Streaming sessions: exec, attach and port-forward.
//!
//! ```text
//! upgrade         protocol negotiation of a request
//! remote_command  exec and attach over WebSocket or SPDY
//! channels        stdin, stdout, stderr, error and resize channels, for both transports
//! status          exit status on the error channel
//! port_forward    port-forward over SPDY, SPDY tunneled in WebSocket, or WebSocket
//! websocket       channels multiplexed in WebSocket messages
//! spdy/           SPDY/3.1 connections
//! ```
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/server.go NewServer

mod channels;
mod port_forward;
mod remote_command;
pub(super) mod spdy;
mod status;
mod upgrade;
mod websocket;

pub(super) use self::{
    port_forward::{PortForwarder, serve_port_forward},
    remote_command::serve_remote_command,
    status::RemoteCommand,
    upgrade::{StreamProtocol, Upgrade, UpgradeError, negotiate_port_forward, negotiate_remote_command},
};
