//! A substitute for etcd: it holds the port and the data directory of an etcd and answers /health. The API server stores the
//! objects in that directory, so they survive its restart.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Parser;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::{body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinSet};

use super::arguments;
use crate::{
    command_error::CommandError,
    log::{self, LogLevel},
    runtime, secret_file,
    signals::StopSignals,
};

/// The path that reports the data directory to an API server that is k3. A real etcd returns 404.
pub(super) const DATA_DIR_PATH: &str = "/k3/data-dir";

/// A substitute for etcd in tests of operators. It answers /health, and its data directory holds the objects of the
/// `kube-apiserver` that is k3. It serves no other etcd client.
#[derive(Debug, Parser)]
#[command(name = "etcd", disable_version_flag = true)]
struct EtcdFlags {
    /// Client URLs, comma-separated
    #[arg(
        long,
        value_name = "URLS",
        value_delimiter = ',',
        default_value = "http://localhost:2379"
    )]
    listen_client_urls: Vec<Uri>,

    /// Data directory
    #[arg(long, value_name = "DIR", default_value = "default.etcd")]
    data_dir: PathBuf,

    /// Ignored: there are no peers
    #[arg(long, value_name = "URLS")]
    listen_peer_urls: Option<String>,

    /// Ignored
    #[arg(long, value_name = "URLS")]
    advertise_client_urls: Option<String>,

    /// Ignored: writes are not synchronized to disk
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    unsafe_no_fsync: Option<String>,
}

/// Runs until a signal.
pub(super) fn run(arguments: impl IntoIterator<Item = String>) -> Result<(), CommandError> {
    log::init_stderr(LogLevel::WARN);
    let flags: EtcdFlags = arguments::parse(&arguments::read(arguments)?);
    secret_file::create_directory(&flags.data_dir).map_err(|error| {
        CommandError::new("cannot use the data directory", "choose another with --data-dir").caused_by(error)
    })?;
    let directory = std::path::absolute(&flags.data_dir).map_err(|error| {
        CommandError::new(
            "cannot determine the current directory",
            "use an absolute path in --data-dir",
        )
        .caused_by(error)
    })?;
    runtime::current_thread()?.block_on(serve(flags.listen_client_urls, directory))
}

async fn serve(urls: Vec<Uri>, directory: PathBuf) -> Result<(), CommandError> {
    let mut signals = StopSignals::listen().map_err(|error| {
        CommandError::new("cannot listen for signals", "this should not happen; try again").caused_by(error)
    })?;
    let directory: Arc<Path> = directory.into();
    let mut listening = JoinSet::new();
    for url in urls {
        let listener = listen(&url).await.map_err(|error| {
            let advice = "use a URL such as http://127.0.0.1:2379 with a free port of this machine";
            CommandError::new(format!("cannot listen on --listen-client-urls {url}"), advice).caused_by(error)
        })?;
        listening.spawn(accept(listener, Arc::clone(&directory)));
    }
    signals.next().await;
    Ok(())
}

async fn listen(url: &Uri) -> io::Result<TcpListener> {
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
    if url.scheme_str() != Some("http") {
        return Err(wrong("not an http URL"));
    }
    let host = url.host().ok_or_else(|| wrong("it has no host"))?;
    let port = url.port_u16().unwrap_or(2379);
    match host.trim_matches(['[', ']']) {
        "localhost" => TcpListener::bind((IpAddr::from(Ipv4Addr::LOCALHOST), port)).await,
        host => {
            let address: IpAddr = host.parse().map_err(|_| wrong("its host is not an IP address"))?;
            TcpListener::bind(SocketAddr::new(address, port)).await
        }
    }
}

/// Serves connections until the future is dropped.
async fn accept(listener: TcpListener, directory: Arc<Path>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                let directory = Arc::clone(&directory);
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let answer = answer(&request, &directory);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    // Errors of client connections need no log.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

fn answer<B>(request: &Request<B>, directory: &Path) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/health") => (StatusCode::OK, r#"{"health":"true","reason":""}"#.to_owned()),
        (&Method::GET, DATA_DIR_PATH) => (StatusCode::OK, directory.display().to_string()),
        _ => (
            StatusCode::NOT_FOUND,
            "this is not etcd: k3 replaces it in tests\n".to_owned(),
        ),
    };
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    answer
}
