//! The ports that a server listens on.

use std::{io, net::TcpListener};

use super::{check::Check, server::ServerState};

/// Whether a port is free, or has the server that runs.
pub(super) fn check(what: &'static str, port: u16, flag: &str, running: &ServerState) -> Check {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => Check::ok(what, format!("{port} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match running {
            ServerState::Running { port: Some(own), .. } if *own == port => {
                Check::ok(what, format!("{port} is the server's"))
            }
            running if running.is_running() && flag == "--node-port" => {
                Check::ok(what, format!("{port} is in use, and a server runs"))
            }
            _ => Check::fail(
                what,
                format!("{port} is in use by another program"),
                format!(
                    "stop that one (`ss -ltnp 'sport = :{port}'` names it), or choose another with {flag}"
                ),
            ),
        },
        Err(error) => Check::fail(
            what,
            format!("{port} cannot be listened on: {error}"),
            format!("choose another with {flag}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::check::CheckStatus, *};

    #[test]
    fn a_port_is_free_or_the_servers_or_anothers() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let nobody = ServerState::NotRunning(String::new());
        let server = ServerState::Running {
            port: Some(port),
            ready: true,
            time: None,
        };
        let check = |running| super::check("port", port, "--secure-port", running);
        let found = check(&nobody);
        assert_eq!(found.status, CheckStatus::Fail);
        assert!(found.advice.unwrap().contains("--secure-port"));
        assert_eq!(check(&server).status, CheckStatus::Ok);
        drop(taken);
        assert_eq!(check(&nobody).status, CheckStatus::Ok);
    }
}
