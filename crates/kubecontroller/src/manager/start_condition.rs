//! Conditions for the start of a controller.

use std::{fmt, time::Duration};

use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tracing::info;

use super::status::StatusBoard;

/// A condition that must hold before a controller starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartCondition {
    /// A TCP port accepts connections: `HOST:PORT`.
    Port(String),
    /// Another controller of the process is running and ready.
    Controller(String),
}

/// How often a port is tried, and how often the wait is logged.
const PORT_POLL: Duration = Duration::from_secs(5);
/// How often the state of another controller is read.
const READY_POLL: Duration = Duration::from_millis(100);

/// A text that is no start condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither HOST:PORT nor the name of a controller")]
pub struct StartConditionError(String);

// --- StartCondition ---

impl StartCondition {
    /// Parses `HOST:PORT`, with or without `tcp://`, or the name of a controller.
    pub fn parse(text: &str) -> Result<Self, StartConditionError> {
        let text = text.strip_prefix("tcp://").unwrap_or(text);
        let Some((host, port)) = text.rsplit_once(':') else {
            return Ok(StartCondition::Controller(text.to_owned()));
        };
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(StartConditionError(text.to_owned()));
        }
        Ok(StartCondition::Port(text.to_owned()))
    }

    /// Waits until the condition holds, and logs the wait periodically.
    pub(super) async fn wait(&self, controller: &str, board: &StatusBoard) {
        let mut logged = None;
        loop {
            let began = Instant::now();
            if self.holds(board).await {
                info!(controller, condition = %self, "start condition holds");
                return;
            }
            if logged.is_none_or(|logged: Instant| logged.elapsed() >= PORT_POLL) {
                info!(controller, condition = %self, "waiting for start condition");
                logged = Some(began);
            }
            let pause = match self {
                StartCondition::Port(_) => PORT_POLL.saturating_sub(began.elapsed()),
                StartCondition::Controller(_) => READY_POLL,
            };
            sleep(pause).await;
        }
    }

    async fn holds(&self, board: &StatusBoard) -> bool {
        match self {
            StartCondition::Port(address) => {
                matches!(timeout(PORT_POLL, TcpStream::connect(address)).await, Ok(Ok(_)))
            }
            StartCondition::Controller(name) => board.is_ready(name),
        }
    }
}

impl fmt::Display for StartCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartCondition::Port(address) => write!(f, "port {address}"),
            StartCondition::Controller(name) => write!(f, "controller {name}"),
        }
    }
}
