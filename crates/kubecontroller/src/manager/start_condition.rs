//! What a controller waits for before it begins.

use std::{fmt, time::Duration};

use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tracing::info;

use super::status::StatusBoard;

/// What a controller waits for before it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartCondition {
    /// A TCP port that answers: `HOST:PORT`.
    Port(String),
    /// Another controller of the process that runs and is ready.
    Controller(String),
}

/// How often a port is tried, and how often the waiting is logged.
const POLL: Duration = Duration::from_secs(5);
/// How often another controller is looked at.
const LOOK: Duration = Duration::from_millis(100);

// --- StartCondition ---

impl StartCondition {
    /// `HOST:PORT`, with or without `tcp://`, or the name of a controller.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix("tcp://").unwrap_or(text);
        let Some((host, port)) = text.rsplit_once(':') else {
            return Ok(StartCondition::Controller(text.to_owned()));
        };
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(format!("{text:?} is not HOST:PORT nor the name of a controller"));
        }
        Ok(StartCondition::Port(text.to_owned()))
    }

    /// Waits until it is open, and says so in the log every five seconds.
    pub(super) async fn open(&self, who: &str, board: &StatusBoard) {
        let mut told = None;
        loop {
            let began = Instant::now();
            if self.is_open(board).await {
                info!(controller = who, gate = %self, "the gate is open");
                return;
            }
            if told.is_none_or(|told: Instant| told.elapsed() >= POLL) {
                info!(controller = who, gate = %self, "waiting");
                told = Some(began);
            }
            let pause = match self {
                StartCondition::Port(_) => POLL.saturating_sub(began.elapsed()),
                StartCondition::Controller(_) => LOOK,
            };
            sleep(pause).await;
        }
    }

    async fn is_open(&self, board: &StatusBoard) -> bool {
        match self {
            StartCondition::Port(address) => {
                matches!(timeout(POLL, TcpStream::connect(address)).await, Ok(Ok(_)))
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
