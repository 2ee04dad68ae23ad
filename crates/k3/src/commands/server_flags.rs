//! Requests to a server with administrator credentials.

use std::{env, path::PathBuf};

use clap::Args;
use http::Request;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use serde_json::Value;
use tokio::runtime::Builder;

use crate::{
    command_error::{CommandError, advice_for_status},
    data_dir::default_data_dir,
};

#[derive(Debug, Args)]
pub(super) struct ServerFlags {
    /// Path to a kubeconfig of a member of system:masters
    /// [default: `$KUBECONFIG`, or admin.kubeconfig in the data directory]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Data directory of the server, which contains admin.kubeconfig
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    data_dir: Option<PathBuf>,
}

/// A client of the API server.
pub(super) struct ApiClient(Client);

/// Runs a future on the current thread.
pub(super) fn block_on(work: impl Future<Output = Result<(), CommandError>>) -> Result<(), CommandError> {
    block_on_runtime(Builder::new_current_thread(), work)
}

/// Runs a future on all cores.
pub(super) fn block_on_threads(
    work: impl Future<Output = Result<(), CommandError>>,
) -> Result<(), CommandError> {
    block_on_runtime(Builder::new_multi_thread(), work)
}

fn block_on_runtime(
    mut runtime: Builder,
    work: impl Future<Output = Result<(), CommandError>>,
) -> Result<(), CommandError> {
    let runtime = runtime.enable_all().build().map_err(|error| {
        CommandError::new(
            "cannot start threads",
            "check the limits of this process with `ulimit -a`",
        )
        .caused_by(error)
    })?;
    runtime.block_on(work)
}

// --- ServerFlags ---

impl ServerFlags {
    pub(super) fn new(kubeconfig: Option<PathBuf>, data_dir: Option<PathBuf>) -> Self {
        ServerFlags { kubeconfig, data_dir }
    }

    /// Loads the kubeconfig.
    pub(super) async fn config(&self) -> Result<Config, CommandError> {
        let unusable = |error: KubeconfigError| {
            let advice = "name the kubeconfig of a running server with --kubeconfig, or its data directory with --data-dir";
            CommandError::new("cannot load a kubeconfig", advice).caused_by(error)
        };
        let read = if let Some(file) = &self.kubeconfig {
            Kubeconfig::read_from(file)
        } else if let Some(directory) = &self.data_dir {
            Kubeconfig::read_from(directory.join("admin.kubeconfig"))
        } else if env::var_os("KUBECONFIG").is_some_and(|files| !files.is_empty()) {
            Kubeconfig::from_env().map(Option::unwrap_or_default)
        } else {
            Kubeconfig::read_from(default_data_dir()?.join("admin.kubeconfig"))
        };
        let options = KubeConfigOptions::default();
        Config::from_custom_kubeconfig(read.map_err(unusable)?, &options)
            .await
            .map_err(unusable)
    }
}

// --- ApiClient ---

impl ApiClient {
    pub(super) async fn connect(flags: &ServerFlags) -> Result<Self, CommandError> {
        let config = flags.config().await?;
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config).map_err(|error| {
            let advice = "check the kubeconfig";
            CommandError::new(format!("cannot connect to {server}"), advice).caused_by(error)
        })?;
        Ok(ApiClient(client))
    }

    /// Creates an object unless it exists.
    pub(super) async fn ensure(&self, path: &str, object: &Value) -> Result<(), CommandError> {
        match self.send("POST", path, Some(object)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            made => made.map(drop).map_err(request_error),
        }
    }

    /// Sends a request, and returns the JSON response.
    pub(super) async fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CommandError> {
        self.send(method, path, body).await.map_err(request_error)
    }

    /// Sends a request, and returns error responses as they are.
    pub(super) async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> kube::Result<Value> {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.0
            .request(build_request(method, path, "application/json", body))
            .await
    }

    /// Sends text, and returns the text of the response.
    pub(super) async fn request_text(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<String, CommandError> {
        let request = build_request(method, path, "text/plain", body.as_bytes().to_vec());
        self.0.request_text(request).await.map_err(request_error)
    }
}

fn build_request(method: &str, path: &str, media: &str, body: Vec<u8>) -> Request<Vec<u8>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(body)
        .expect("the path is valid")
}

fn request_error(error: kube::Error) -> CommandError {
    let advice = match &error {
        kube::Error::Api(status) => advice_for_status(status.code),
        _ => "check that the server runs, and that the kubeconfig is for it",
    };
    match error {
        kube::Error::Api(status) => CommandError::new(
            format!("the server rejected the request: {}", status.message.trim_end()),
            advice,
        ),
        error => CommandError::new("cannot reach the server", advice).caused_by(error),
    }
}
