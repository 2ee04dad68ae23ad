//! State of the server of a data directory.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use http::{Request, header};
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use super::check::DoctorCheck;

const SERVER: &str = "server";
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(3);

/// State of the server in the admin's kubeconfig.
pub(super) enum ServerState {
    /// Why it does not answer.
    NotRunning(String),
    /// It answers.
    Running {
        port: Option<u16>,
        ready: bool,
        /// The server's time.
        time: Option<SystemTime>,
    },
}

/// Why a request to the server failed.
#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Request(#[from] kube::Error),
    #[error(transparent)]
    InvalidRequest(#[from] http::Error),
}

// --- ServerState ---

impl ServerState {
    /// Sends a request to the server.
    pub(super) async fn probe(data_dir: &Path) -> Self {
        let file = data_dir.join("admin.kubeconfig");
        if !file.exists() {
            return ServerState::NotRunning("none was started on this data directory".to_owned());
        }
        let asked = tokio::time::timeout(TIMEOUT, Self::request(&file)).await;
        match asked {
            Ok(Ok(running)) => running,
            Ok(Err(error)) => ServerState::NotRunning(error.to_string()),
            Err(_) => ServerState::NotRunning(format!("no answer within {} s", TIMEOUT.as_secs())),
        }
    }

    async fn request(file: &Path) -> Result<Self, ProbeError> {
        let read = Kubeconfig::read_from(file)?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        let port = config.cluster_url.port_u16();
        let client = Client::try_from(config)?;
        let request = Request::get("/readyz").body(Body::empty())?;
        let answer = client.send(request).await?;
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

    pub(super) fn check(&self) -> DoctorCheck {
        match self {
            ServerState::NotRunning(reason) => DoctorCheck::ok(SERVER, format!("not running: {reason}")),
            ServerState::Running { ready: true, .. } => DoctorCheck::ok(SERVER, "running and ready"),
            ServerState::Running { ready: false, .. } => DoctorCheck::fail(
                SERVER,
                "running, but not ready",
                "check its log, and `kubectl get --raw '/readyz?verbose'`",
            ),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self, ServerState::Running { .. })
    }
}
