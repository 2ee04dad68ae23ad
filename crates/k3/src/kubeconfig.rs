//! The kubeconfig of the administrator.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::certificates::CertificateAndKey;

/// A self-contained kubeconfig for one user of one server.
pub(crate) fn text(server: SocketAddr, authority: &str, user: &CertificateAndKey) -> String {
    let server = reachable(server);
    let [authority, certificate, key] =
        [authority, &user.certificate, &user.key].map(|pem| STANDARD.encode(pem));
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: k3
  cluster:
    server: https://{server}
    certificate-authority-data: {authority}
users:
- name: admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: k3
  context:
    cluster: k3
    user: admin
current-context: k3
"
    )
}

/// The address at which clients on this machine reach a server that listens at `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_of(listening: &str) -> String {
        let identity = CertificateAndKey {
            certificate: "certificate".to_owned(),
            key: "key".to_owned(),
        };
        let text = text(listening.parse().unwrap(), "authority", &identity);
        let line = text.lines().find_map(|line| line.trim().strip_prefix("server: "));
        line.unwrap().to_owned()
    }

    #[test]
    fn uses_an_address_that_is_reachable_locally() {
        assert_eq!(server_of("127.0.0.1:6443"), "https://127.0.0.1:6443");
        assert_eq!(server_of("0.0.0.0:6443"), "https://127.0.0.1:6443");
        assert_eq!(server_of("[::]:1"), "https://[::1]:1");
        assert_eq!(server_of("192.0.2.7:6443"), "https://192.0.2.7:6443");
    }
}
