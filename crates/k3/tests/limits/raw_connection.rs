//! A client that sends raw bytes, so that requests can be malformed.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpStream},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::Value;

use crate::program::{Server, TestDataDir};

/// Timeout of a response.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server with a directory of its own.
pub(crate) struct TestCluster {
    pub(crate) data: TestDataDir,
    pub(crate) server: Server,
}

/// The credentials of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requester {
    /// The administrator, by certificate.
    Admin,
    /// No client certificate; the request may contain a token.
    Anonymous,
}

/// A connection.
pub(crate) struct RawConnection(StreamOwned<ClientConnection, TcpStream>);

/// A response.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) code: u16,
    /// In small letters.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

// --- TestCluster ---

impl TestCluster {
    pub(crate) fn start(args: &[&str]) -> Self {
        let data = TestDataDir::new();
        let mut all = vec!["--storage=memory", "--controllers="];
        all.extend(args);
        let server = data.start(&all);
        TestCluster { data, server }
    }

    /// A connection that speaks the protocol, which is `http/1.1` or `h2`.
    pub(crate) fn connect(&self, requester: Requester, protocol: &str) -> RawConnection {
        let tls = self.data.path().join("tls");
        let file = |name: &str| fs::read(tls.join(name)).unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(&file("ca.crt")).unwrap())
            .unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match requester {
            Requester::Anonymous => builder.with_no_client_auth(),
            Requester::Admin => {
                let certificate = CertificateDer::from_pem_slice(&file("admin.crt")).unwrap();
                let key = PrivateKeyDer::from_pem_slice(&file("admin.key")).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::IpAddress(std::net::IpAddr::from(Ipv4Addr::LOCALHOST).into());
        let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server.port())).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        RawConnection(StreamOwned::new(connection, tcp))
    }

    pub(crate) fn admin(&self) -> RawConnection {
        self.connect(Requester::Admin, "http/1.1")
    }

    /// Asks as the administrator.
    pub(crate) fn request(&self, method: &str, path: &str, body: &[u8]) -> RawResponse {
        self.admin()
            .request(method, path, "Content-Type: application/json\r\n", body)
    }

    pub(crate) fn get(&self, path: &str) -> RawResponse {
        self.request("GET", path, b"")
    }

    /// Whether it still answers, and has not panicked.
    pub(crate) fn assert_healthy(&self) {
        let response = self.get("/metrics");
        assert_eq!(response.code, 200);
        assert!(
            response.text().contains("\napiserver_panics_total 0\n"),
            "it panicked: {}",
            self.data.log()
        );
        assert_eq!(self.get("/api/v1/namespaces/default").code, 200);
    }
}

// --- RawConnection ---

impl RawConnection {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
        self.0.flush().unwrap();
    }

    /// Sends bytes; returns false when the server has closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).and_then(|()| self.0.flush()).is_ok()
    }

    /// Sends a request, with further headers, and waits for the answer.
    pub(crate) fn request(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> RawResponse {
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: k3\r\n{headers}Content-Length: {length}\r\n\r\n");
        self.send(head.as_bytes());
        // An answer may come before everything is sent.
        self.try_send(body);
        self.response()
    }

    /// Waits for an answer, and reads it to its end.
    pub(crate) fn response(&mut self) -> RawResponse {
        let head = self.head();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let field = |name: &str| {
            head.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let mut body = Vec::new();
        if let Some(length) = field("content-length") {
            body = vec![0; length.trim().parse().unwrap()];
            self.0.read_exact(&mut body).unwrap();
        } else if field("transfer-encoding").is_some() {
            loop {
                let length = usize::from_str_radix(self.line().trim(), 16).unwrap();
                let mut piece = vec![0; length + 2];
                self.0.read_exact(&mut piece).unwrap();
                body.extend_from_slice(&piece[..length]);
                if length == 0 {
                    break;
                }
            }
        }
        RawResponse { code, head, body }
    }

    /// Reads the head of an answer.
    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        loop {
            let line = self.line();
            if line == "\r\n" {
                return head.to_lowercase();
            }
            head.push_str(&line);
        }
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\n") {
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// Reads until the server closes the connection.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let mut piece = [0; 4096];
        loop {
            match self.0.read(&mut piece) {
                Ok(0) => return rest,
                Ok(length) => rest.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the connection is not closed"),
                // Closed without a TLS close notification.
                Err(_) => return rest,
            }
        }
    }
}

// --- RawResponse ---

impl RawResponse {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn tree(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}
