//! Checks of the ports of a server.

use std::{io, net::TcpListener};

use super::{check::DoctorCheck, server::ServerState};

/// Whether a port is free, or used by the running server.
pub(super) fn check(what: &'static str, port: u16, flag: &str, running: &ServerState) -> DoctorCheck {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => DoctorCheck::ok(what, format!("{port} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match running {
            ServerState::Running { port: Some(own), .. } if *own == port => {
                DoctorCheck::ok(what, format!("{port} is used by the server"))
            }
            running if running.is_running() && flag == "--node-port" => {
                DoctorCheck::ok(what, format!("{port} is in use by the running server"))
            }
            _ => DoctorCheck::fail(
                what,
                format!("{port} is in use by another program"),
                format!(
                    "stop it (`ss -ltnp 'sport = :{port}'` shows it), or choose another port with {flag}"
                ),
            ),
        },
        Err(error) => DoctorCheck::fail(
            what,
            format!("cannot listen on {port}: {error}"),
            format!("choose another with {flag}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::check::CheckStatus, *};

    #[test]
    fn fails_for_a_port_of_another_program() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let not_running = ServerState::NotRunning(String::new());
        let server = ServerState::Running {
            port: Some(port),
            ready: true,
            time: None,
        };
        let check = |running| super::check("port", port, "--secure-port", running);
        let found = check(&not_running);
        assert_eq!(found.status, CheckStatus::Fail);
        assert!(found.advice.unwrap().contains("--secure-port"));
        assert_eq!(check(&server).status, CheckStatus::Ok);
        drop(taken);
        assert_eq!(check(&not_running).status, CheckStatus::Ok);
    }
}
