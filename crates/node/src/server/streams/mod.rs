//! Conversations with processes and ports in pods: exec, attach, port-forward.
//!
//! ```text
//! upgrade       how a request becomes a conversation: which protocol both sides speak
//! remote        a process: over WebSocket or SPDY
//! channels      what goes to and from a process, whatever carries it
//! outcome       how it ended, as the client is told
//! forward       ports: over SPDY, SPDY within WebSocket, or WebSocket
//! websocket     channels within messages
//! spdy          streams within a connection
//! ```

mod channels;
mod forward;
mod outcome;
mod remote;
pub(super) mod spdy;
mod upgrade;
mod websocket;

pub(super) use self::{
    forward::{Ports, forward},
    outcome::Task,
    remote::converse,
    upgrade::{Carrier, Refusal, Upgrade, port_forward, remote_command},
};
