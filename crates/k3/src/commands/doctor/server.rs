//! A server that runs on the data directory.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use http::{Request, header};
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::check::Check;

const SERVER: &str = "server";
/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// What is known of the server that the admin's kubeconfig names.
pub(super) enum ServerState {
    /// Nobody is there.
    NotRunning(String),
    /// It answers.
    Running {
        port: Option<u16>,
        /// Whether it is ready to serve.
        ready: bool,
        /// What it says the time is.
        time: Option<SystemTime>,
    },
}

// --- ServerState ---

impl ServerState {
    /// Asks the server, if there is one.
    pub(super) async fn probe(data_dir: &Path) -> Self {
        let file = data_dir.join("admin.kubeconfig");
        if !file.exists() {
            return ServerState::NotRunning("none has been started on this data directory".to_owned());
        }
        let asked = tokio::time::timeout(TIMEOUT, Self::request(&file)).await;
        match asked {
            Ok(Ok(running)) => running,
            Ok(Err(reason)) => ServerState::NotRunning(reason),
            Err(_) => ServerState::NotRunning(format!("it does not answer within {} s", TIMEOUT.as_secs())),
        }
    }

    async fn request(file: &Path) -> Result<Self, String> {
        let read = Kubeconfig::read_from(file).map_err(|error| error.to_string())?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .map_err(|error| error.to_string())?;
        let port = config.cluster_url.port_u16();
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        let request = Request::get("/readyz")
            .body(Body::empty())
            .map_err(|error| error.to_string())?;
        let answer = client.send(request).await.map_err(|error| error.to_string())?;
        let date = answer.headers().get(header::DATE);
        let time = date
            .and_then(|date| date.to_str().ok())
            .and_then(|date| httpdate::parse_http_date(date).ok());
        Ok(ServerState::Running {
            port,
            ready: answer.status().is_success(),
            time,
        })
    }

    pub(super) fn check(&self) -> Check {
        match self {
            ServerState::NotRunning(reason) => Check::ok(SERVER, format!("none runs: {reason}")),
            ServerState::Running { ready: true, .. } => {
                Check::ok(SERVER, "one runs on this data directory, and is ready")
            }
            ServerState::Running { ready: false, .. } => Check::fail(
                SERVER,
                "one runs on this data directory, but is not ready",
                "see its log, and `kubectl get --raw '/readyz?verbose'`",
            ),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self, ServerState::Running { .. })
    }
}
