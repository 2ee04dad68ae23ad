//! A line to a database that can be cut.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// A line to a database. It ends when this is dropped.
pub(crate) struct Proxy {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    is_cut: Arc<watch::Sender<bool>>,
    _tasks: JoinSet<()>,
}

// --- Proxy ---

impl Proxy {
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_cut = Arc::new(watch::Sender::new(false));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, target, Arc::clone(&is_cut)));
        Proxy {
            address,
            is_cut,
            _tasks: tasks,
        }
    }

    /// Closes all connections, and new ones as they are accepted.
    pub(crate) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    pub(crate) fn restore(&self) {
        self.is_cut.send_replace(false);
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, is_cut: Arc<watch::Sender<bool>>) {
    let mut connections = JoinSet::new();
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut is_cut = is_cut.subscribe();
        connections.spawn(async move {
            let line = async {
                let mut server = TcpStream::connect(target).await?;
                copy_bidirectional(&mut client, &mut server).await
            };
            tokio::select! {
                biased;
                _ = is_cut.wait_for(|is_cut| *is_cut) => {}
                _ = line => {}
            }
        });
    }
}
