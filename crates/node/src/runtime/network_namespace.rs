//! Connections to ports inside the network namespace of a sandbox.

use std::{
    fs::File,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::oneshot;

/// Connect timeout for each of the two loopback addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to a loopback port in the network namespace of process `pid`: first 127.0.0.1, then `::1`.
///
/// Requires root. `pid` may be any process of the pod, and must live during the call.
pub(super) async fn connect_in_network_namespace(pid: u32, port: u16) -> io::Result<tokio::net::TcpStream> {
    let (result_sender, result) = oneshot::channel();
    // setns(2) changes the thread for good. A thread of the tokio pool would later serve other tasks in the pod's network.
    thread::Builder::new()
        .name("pod-network".to_owned())
        .spawn(move || {
            // The caller may have dropped the future.
            let _ = result_sender.send(connect(pid, port));
        })?;
    let stream = result
        .await
        .map_err(|_| io::Error::other("the thread in the pod's network ended early"))??;
    stream.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(stream)
}

fn connect(pid: u32, port: u16) -> io::Result<TcpStream> {
    let network = File::open(format!("/proc/{pid}/ns/net"))?;
    move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&network),
        Some(LinkNameSpaceType::Network),
    )?;
    let connect_to =
        |address: IpAddr| TcpStream::connect_timeout(&SocketAddr::new(address, port), CONNECT_TIMEOUT);
    connect_to(Ipv4Addr::LOCALHOST.into()).or_else(|error| {
        // Report the IPv4 error, as kubectl port-forward does.
        connect_to(Ipv6Addr::LOCALHOST.into()).map_err(|_| error)
    })
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn connects_to_loopback_port() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = connect_in_network_namespace(std::process::id(), port)
            .await
            .unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        server.write_all(b"hello").await.unwrap();
        drop(server);
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
    }

    #[tokio::test]
    async fn falls_back_to_ipv6_loopback() {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        connect_in_network_namespace(std::process::id(), port)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn reports_connection_refused() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = connect_in_network_namespace(std::process::id(), port)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
