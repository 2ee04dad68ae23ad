//! How a server ends.

use std::{
    io::Read,
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

use rustix::process::Signal;

use crate::program::TestDataDir;

/// How long a server may take to stop with nothing to wait for: generous for a loaded machine, and far below
/// what a service manager waits before it kills.
const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn signals_stop_the_server_successfully() {
    for signal in [Signal::INT, Signal::TERM, Signal::QUIT] {
        let data = TestDataDir::new();
        let server = data.start(&[]);
        let clock = RealTimer::start();
        let status = server.end_by(signal);
        assert_eq!(status.code(), Some(0), "{signal:?}: {}", data.log());
        assert!(clock.elapsed() < LIMIT, "{signal:?}");
    }
}

#[test]
fn silent_connections_do_not_delay_a_stop() {
    let data = TestDataDir::new();
    let server = data.start(&["--storage=memory"]);
    let mut silent = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
    let clock = RealTimer::start();
    assert_eq!(server.end_by(Signal::TERM).code(), Some(0));
    assert!(clock.elapsed() < 2 * LIMIT);
    let mut left = Vec::new();
    // Ended or reset: either way it is over.
    let _ = silent.read_to_end(&mut left);
    assert!(left.is_empty());
}

#[test]
fn restarts_after_sigkill() {
    let data = TestDataDir::new();
    data.start(&[]).end_by(Signal::KILL);
    let status = data.start(&[]).end_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{}", data.log());
}

/// Time that passes outside.
struct RealTimer(std::time::Instant);

impl RealTimer {
    #[expect(clippy::disallowed_methods, reason = "another process ends in real time")]
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
