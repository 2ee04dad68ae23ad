//! A cable between a store and its etcd, that can be cut.

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// Forwards connections while it is whole. Dropping it ends it.
pub(crate) struct EtcdProxy {
    port: u16,
    whole: watch::Sender<bool>,
    _task: JoinSet<()>,
}

// --- EtcdProxy ---

impl EtcdProxy {
    pub(crate) async fn start(endpoint: &str) -> Self {
        let target = endpoint.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let whole = watch::Sender::new(true);
        let mut task = JoinSet::new();
        task.spawn(serve(listener, target, whole.subscribe()));
        Self {
            port,
            whole,
            _task: task,
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Breaks all connections, and lets no new one through.
    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

async fn serve(listener: TcpListener, target: String, whole: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut whole = whole.clone();
        if !*whole.borrow() {
            continue;
        }
        let target = target.clone();
        connections.spawn(async move {
            let mut far = TcpStream::connect(target).await.unwrap();
            tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => {}
                _ = whole.wait_for(|whole| !whole) => {}
            }
        });
    }
}
