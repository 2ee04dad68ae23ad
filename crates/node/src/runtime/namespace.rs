//! Connections that are made from within the network of a sandbox.

use std::{
    fs::File,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::oneshot;

/// How long each of the two loopback addresses is tried.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connects to a port of the loopback address that the process `pid` sees: first that of IPv4, then that of IPv6.
///
/// It needs the rights of root. The process may be any in the pod, for as long as it lives.
pub(super) async fn connect_inside(pid: u32, port: u16) -> io::Result<tokio::net::TcpStream> {
    let (answer, answered) = oneshot::channel();
    // A thread of its own, which ends afterwards: threads of the pool must never come to live in another network.
    thread::Builder::new()
        .name("pod-network".to_owned())
        .spawn(move || {
            // Who asked may have gone.
            let _ = answer.send(connect(pid, port));
        })?;
    let stream = answered
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
    let to = |address: IpAddr| TcpStream::connect_timeout(&SocketAddr::new(address, port), PATIENCE);
    to(Ipv4Addr::LOCALHOST.into()).or_else(|error| {
        // What IPv4 says is what users expect to read.
        to(Ipv6Addr::LOCALHOST.into()).map_err(|_| error)
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
    async fn a_port_is_reached_from_within() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = connect_inside(std::process::id(), port).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        server.write_all(b"hello").await.unwrap();
        drop(server);
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
    }

    #[tokio::test]
    async fn a_port_of_ipv6_only_is_reached_as_well() {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        connect_inside(std::process::id(), port).await.unwrap();
    }

    #[tokio::test]
    async fn nobody_listens_is_told() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = connect_inside(std::process::id(), port).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
