//! Error messages for operators from errors of libraries.
//!
//! Messages of drivers are logged at debug level only. The returned message is that of the operating system or the
//! server.

use std::{error::Error, io};

/// The message of the innermost known cause.
pub(crate) fn describe(error: &(dyn Error + 'static)) -> String {
    let mut at = Some(error);
    while let Some(cause) = at {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            // A wrapping error is less specific than its cause.
            match error.get_ref().map(|inner| inner as &(dyn Error + 'static)) {
                Some(inner) if inner.is::<io::Error>() || inner.is::<rustls::Error>() => {
                    return describe(inner);
                }
                _ => return describe_io(error).to_owned(),
            }
        }
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            return describe_tls(error);
        }
        at = cause.source();
    }
    "the connection failed".to_owned()
}

fn describe_io(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "connection refused; check that the server runs and the port is right"
        }
        io::ErrorKind::TimedOut => "connection timed out; check the address and firewalls",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "the host is unreachable; check the address and the network"
        }
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::NotConnected => "the server closed the connection",
        io::ErrorKind::PermissionDenied => "permission denied",
        io::ErrorKind::InvalidData => {
            "the server does not speak the expected protocol; check the port and TLS settings"
        }
        _ if error.to_string().contains("lookup") => {
            "the host name was not found; check its spelling and DNS"
        }
        _ => "the connection failed",
    }
}

fn describe_tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) => {
            format!(
                "the server's certificate is not valid ({why:?}); check the authority file and the host name"
            )
        }
        rustls::Error::AlertReceived(alert) => {
            format!("the server refused the TLS handshake ({alert:?}); check the client certificate")
        }
        _ => "the TLS handshake failed; check that the server speaks TLS on this port".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("error occurred while attempting to establish a client connection")]
    struct Driver(#[source] io::Error);

    #[test]
    fn errors_name_the_cause_without_library_text() {
        let refused = Driver(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert!(describe(&refused).starts_with("connection refused"));
        let lookup = Driver(io::Error::other(
            "failed to lookup address information: Name or service not known",
        ));
        assert!(describe(&lookup).starts_with("the host name was not found"));
        let wrapped = Driver(io::Error::other(io::Error::from(io::ErrorKind::TimedOut)));
        assert!(describe(&wrapped).starts_with("connection timed out"));
    }
}
