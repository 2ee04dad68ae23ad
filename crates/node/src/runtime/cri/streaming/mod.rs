//! Exec and attach: the runtime is asked for an address, and speaks the protocol of `kubectl` there.
//!
//! ```text
//! address     where: parsed, connected to, upgraded
//! wires       our ends of the process's streams
//! websocket   v5.channel.k8s.io: frames with the number of a channel in front
//! spdy        SPDY/3.1: a stream for each, as far as this needs it
//! status      how the process ended, as both tell it in the end
//! ```
//!
//! `WebSockets` are asked for first, but only with the fifth version of the protocol: the fourth cannot say that the input has ended,
//! and `echo x | kubectl exec -i pod -- cat` would never end. Runtimes that know only the fourth (containerd before 2.0) refuse
//! before they begin the command, and are spoken to in SPDY, which can say it. An address is good for one attempt only, so that a
//! second one is asked for then.

mod address;
mod spdy;
mod status;
mod websocket;
mod wires;

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;

use crate::runtime::{Attached, ExecSpec, RuntimeError};

use self::{
    address::Address,
    wires::{Wires, wires},
};

/// How long a runtime may take to begin a stream.
const BEGIN: Duration = Duration::from_secs(30);

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A command of its own: its end is told.
    Exec,
    /// The container's first process: streams may end without a word.
    Attach,
}

/// Which protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// WebSocket, v5.
    WebSocket,
    /// SPDY/3.1, v4.
    Spdy,
}

/// Why there is no stream.
#[derive(Debug)]
pub(super) enum NoStream {
    /// The runtime does not speak the protocol, and nothing was begun.
    OtherProtocol(String),
    /// Something else.
    Error(RuntimeError),
}

/// Begins a stream at the address that the runtime gave.
pub(super) async fn open(
    url: &str,
    protocol: Protocol,
    spec: &ExecSpec,
    purpose: Purpose,
) -> Result<Attached, NoStream> {
    let address = Address::parse(url).map_err(NoStream::Error)?;
    let begun = async {
        match protocol {
            Protocol::WebSocket => Ok(Begun::WebSocket(Box::new(websocket::connect(&address).await?))),
            Protocol::Spdy => Ok(Begun::Spdy(spdy::connect(&address).await?)),
        }
    };
    let late = || RuntimeError::Timeout {
        what: format!("streams at {address}"),
        after: BEGIN,
    };
    let begun = timeout(BEGIN, begun)
        .await
        .unwrap_or_else(|_| Err(NoStream::Error(late())))?;
    let (ours, theirs) = wires(spec);
    let wires::Ends {
        stdin,
        stdout,
        stderr,
        resize,
    } = theirs;
    Ok(Attached {
        stdin,
        stdout,
        stderr,
        resize,
        done: begun.run(ours, purpose).boxed(),
    })
}

enum Begun {
    WebSocket(Box<websocket::Socket>),
    Spdy(spdy::Socket),
}

impl Begun {
    async fn run(self, wires: Wires, purpose: Purpose) -> Result<i32, RuntimeError> {
        let ended = match self {
            Begun::WebSocket(socket) => websocket::run(*socket, wires).await?,
            Begun::Spdy(socket) => spdy::run(socket, wires).await?,
        };
        match (ended, purpose) {
            (Some(status), _) => status::exit_code(&status),
            (None, Purpose::Attach) => Ok(0),
            (None, Purpose::Exec) => Err(RuntimeError::Refused(
                "the streams ended before the command did".to_owned(),
            )),
        }
    }
}
