//! A fake CRI-O: names, errors and verbose info as in CRI-O's source, sandboxes without a process, events, and version 5 `WebSocket`
//! streams, as CRI-O has with conmon-rs. It runs nothing.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{StreamExt, stream, stream::BoxStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use parking_lot::{Mutex, MutexGuard};
use prost::Message;
use tokio::{
    net::UnixListener,
    sync::{broadcast, watch},
    task::JoinSet,
};

use super::{
    super::messages::{self, ContainerState, PodSandboxState, method},
    websocket,
};

/// Injected fault of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The call never returns.
    Hang,
    /// The method is unknown.
    Unimplemented,
    /// All connections break.
    Break,
}

/// Whether the server has container events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EventSupport {
    /// `enable_pod_events = true`
    Enabled,
    /// Default: the call ends at once, without an error.
    #[default]
    Off,
}

/// The server. Dropping it stops it.
pub(super) struct FakeCrio {
    directory: tempfile::TempDir,
    shared: Arc<CrioServer>,
    _tasks: JoinSet<()>,
}

struct CrioServer {
    state: Mutex<CrioState>,
    events: broadcast::Sender<messages::ContainerEventResponse>,
    /// Incremented to break all connections.
    breaks: watch::Sender<u32>,
    /// URL of the streaming server.
    streams: String,
}

#[derive(Default)]
pub(super) struct CrioState {
    pub(super) sandboxes: Vec<messages::PodSandbox>,
    pub(super) containers: Vec<(messages::Container, messages::ContainerStatus)>,
    pub(super) created: Vec<messages::ContainerConfig>,
    pub(super) faults: HashMap<&'static str, Fault>,
    pub(super) events: EventSupport,
    pub(super) calls: Vec<String>,
    pub(super) network: bool,
}

type GrpcResponse = Response<StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

// --- FakeCrio ---

impl FakeCrio {
    pub(super) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("crio.sock")).unwrap();
        let mut tasks = JoinSet::new();
        let streams = websocket::serve(&mut tasks).await;
        let shared = Arc::new(CrioServer {
            state: Mutex::new(CrioState {
                network: true,
                ..CrioState::default()
            }),
            events: broadcast::Sender::new(16),
            breaks: watch::Sender::new(0),
            streams,
        });
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        FakeCrio {
            directory,
            shared,
            _tasks: tasks,
        }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.path().join("crio.sock")
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, CrioState> {
        self.shared.state.lock()
    }

    pub(super) fn calls(&self, method: &str) -> usize {
        self.state().calls.iter().filter(|call| *call == method).count()
    }

    pub(super) fn send_event(&self, event: messages::ContainerEventResponse) {
        // There may be no subscribers.
        let _ = self.shared.events.send(event);
    }

    /// Exits a container.
    pub(super) fn end(&self, id: &str, code: i32) {
        let mut state = self.state();
        let (listed, status) = state.container(id).unwrap();
        listed.state = ContainerState::Exited.into();
        status.state = listed.state;
        status.finished_at = 9_000_000_000;
        status.exit_code = code;
    }
}

impl CrioState {
    fn container(&mut self, id: &str) -> Option<&mut (messages::Container, messages::ContainerStatus)> {
        self.containers.iter_mut().find(|(listed, _)| listed.id == id)
    }
}

async fn accept(listener: UnixListener, shared: Arc<CrioServer>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let shared = Arc::clone(&shared);
        let mut breaks = shared.breaks.subscribe();
        connections.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&shared), request));
            let builder = auto::Builder::new(TokioExecutor::new()).http2_only();
            let served = builder.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ = served => {}
                _ = breaks.changed() => {}
            }
        });
    }
}

async fn answer(shared: Arc<CrioServer>, request: Request<Incoming>) -> Result<GrpcResponse, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    // One gRPC message, after its flag and length.
    let body = body.slice(5..);
    let fault = {
        let mut state = shared.state.lock();
        state.calls.push(path.clone());
        let fault = state.faults.iter().find(|(method, _)| **method == path);
        fault.map(|(_, fault)| *fault)
    };
    match fault {
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Break) => {
            shared.state.lock().faults.retain(|method, _| *method != path);
            shared.breaks.send_modify(|count| *count += 1);
            std::future::pending::<()>().await;
        }
        Some(Fault::Unimplemented) => return Ok(refused(12, "unknown method")),
        None => {}
    }
    if path == method::GET_CONTAINER_EVENTS {
        return Ok(events(&shared));
    }
    Ok(match shared.unary(&path, &body) {
        Ok(message) => finished(Some(message), 0, ""),
        Err((code, message)) => refused(code, &message),
    })
}

fn events(shared: &CrioServer) -> GrpcResponse {
    if shared.state.lock().events == EventSupport::Off {
        return finished(None, 0, "");
    }
    let status = stream::unfold(shared.events.subscribe(), async |mut events| {
        let event = events.recv().await.ok()?;
        Some((Ok(Frame::data(framed(&event))), events))
    });
    respond(status.boxed())
}

fn refused(code: u32, message: &str) -> GrpcResponse {
    finished(None, code, message)
}

fn finished(message: Option<Bytes>, code: u32, error_message: &str) -> GrpcResponse {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    trailers.insert("grpc-message", HeaderValue::from_str(error_message).unwrap());
    let frames = message
        .map(Frame::data)
        .into_iter()
        .chain([Frame::trailers(trailers)]);
    respond(stream::iter(frames.map(Ok).collect::<Vec<_>>()).boxed())
}

fn respond(frames: BoxStream<'static, Result<Frame<Bytes>, Infallible>>) -> GrpcResponse {
    Response::builder()
        .header("content-type", "application/grpc")
        .body(StreamBody::new(frames))
        .unwrap()
}

fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len().try_into().unwrap());
    message.encode(&mut bytes).unwrap();
    bytes.freeze()
}

fn read<T: Message + Default>(body: &Bytes) -> T {
    T::decode(body.clone()).unwrap()
}

fn not_found(what: &str, id: &str) -> (u32, String) {
    (5, format!("could not find {what} \"{id}\": ID does not exist"))
}

impl CrioServer {
    #[expect(clippy::too_many_lines, reason = "one arm per method")]
    fn unary(&self, path: &str, body: &Bytes) -> Result<Bytes, (u32, String)> {
        let mut state = self.state.lock();
        let done = || Ok(framed(&messages::Empty {}));
        match path {
            method::VERSION => Ok(framed(&messages::VersionResponse {
                runtime_name: "cri-o".to_owned(),
                runtime_version: "1.34.0".to_owned(),
            })),
            method::STATUS => {
                let network = if state.network {
                    ready_condition("NetworkReady")
                } else {
                    unready_network()
                };
                Ok(framed(&status(network)))
            }
            method::RUNTIME_CONFIG => Ok(framed(&messages::RuntimeConfigResponse {
                linux: Some(messages::LinuxRuntimeConfiguration {
                    cgroup_driver: messages::CgroupDriver::Systemd.into(),
                }),
            })),
            method::RUN_POD_SANDBOX => {
                let request: messages::RunPodSandboxRequest = read(body);
                let config = request.config.unwrap();
                let id = format!("sandbox-{}", state.sandboxes.len());
                state.sandboxes.push(messages::PodSandbox {
                    id: id.clone(),
                    metadata: config.metadata,
                    state: PodSandboxState::Ready.into(),
                    created_at: 1_000_000_000,
                    labels: config.labels,
                    annotations: config.annotations,
                });
                Ok(framed(&messages::PodSandboxId { pod_sandbox_id: id }))
            }
            method::LIST_POD_SANDBOX => {
                let request: messages::ListPodSandboxRequest = read(body);
                let filter = request.filter.unwrap_or_default();
                let is_selected = |sandbox: &&messages::PodSandbox| {
                    (filter.id.is_empty() || filter.id == sandbox.id)
                        && has(&sandbox.labels, &filter.label_selector)
                };
                let items = state.sandboxes.iter().filter(is_selected).cloned().collect();
                Ok(framed(&messages::ListPodSandboxResponse { items }))
            }
            method::POD_SANDBOX_STATUS => {
                let request: messages::PodSandboxStatusRequest = read(body);
                let id = request.pod_sandbox_id;
                let found = state.sandboxes.iter().find(|sandbox| sandbox.id == id);
                let found = found.ok_or_else(|| not_found("pod", &id))?;
                Ok(framed(&messages::PodSandboxStatusResponse {
                    status: Some(messages::PodSandboxStatus {
                        id,
                        metadata: found.metadata.clone(),
                        state: found.state,
                        network: Some(messages::PodSandboxNetworkStatus {
                            ip: "10.85.0.7".to_owned(),
                            additional_ips: Vec::new(),
                        }),
                        labels: found.labels.clone(),
                        annotations: found.annotations.clone(),
                    }),
                    // No PID: CRI-O drops the pause container unless it is needed.
                    info: BTreeMap::from([("info".to_owned(), r#"{"runtimeSpec":{}}"#.to_owned())]),
                }))
            }
            method::STOP_POD_SANDBOX => {
                let request: messages::PodSandboxId = read(body);
                for sandbox in &mut state.sandboxes {
                    if sandbox.id == request.pod_sandbox_id {
                        sandbox.state = PodSandboxState::NotReady.into();
                    }
                }
                done()
            }
            method::REMOVE_POD_SANDBOX => {
                let request: messages::PodSandboxId = read(body);
                state
                    .sandboxes
                    .retain(|sandbox| sandbox.id != request.pod_sandbox_id);
                state
                    .containers
                    .retain(|(listed, _)| listed.pod_sandbox_id != request.pod_sandbox_id);
                done()
            }
            method::CREATE_CONTAINER => {
                let request: messages::CreateContainerRequest = read(body);
                let config = request.config.unwrap();
                let id = format!("container-{}", state.containers.len());
                let directory = request.sandbox_config.unwrap().log_directory;
                let listed = messages::Container {
                    id: id.clone(),
                    pod_sandbox_id: request.pod_sandbox_id,
                    metadata: config.metadata.clone(),
                    image: config.image.clone(),
                    image_ref: "registry.example/app@sha256:1234".to_owned(),
                    image_id: "1234".to_owned(),
                    state: ContainerState::Created.into(),
                    created_at: 2_000_000_000,
                    labels: config.labels.clone(),
                    annotations: config.annotations.clone(),
                };
                let status = messages::ContainerStatus {
                    id: id.clone(),
                    state: listed.state,
                    image: config.image.clone(),
                    image_ref: "registry.example/app@sha256:1234".to_owned(),
                    image_id: "1234".to_owned(),
                    labels: config.labels.clone(),
                    log_path: format!("{directory}/{}", config.log_path),
                    ..messages::ContainerStatus::default()
                };
                state.created.push(config);
                state.containers.push((listed, status));
                Ok(framed(&messages::ContainerIdMessage { container_id: id }))
            }
            method::START_CONTAINER => {
                let id = read::<messages::ContainerIdMessage>(body).container_id;
                let (listed, status) = state.container(&id).ok_or_else(|| not_found("container", &id))?;
                listed.state = ContainerState::Running.into();
                status.state = listed.state;
                status.started_at = 3_000_000_000;
                done()
            }
            method::REMOVE_CONTAINER => {
                let id = read::<messages::ContainerIdMessage>(body).container_id;
                state.container(&id).ok_or_else(|| not_found("container", &id))?;
                state.containers.retain(|(listed, _)| listed.id != id);
                done()
            }
            method::LIST_CONTAINERS => {
                let request: messages::ListContainersRequest = read(body);
                let filter = request.filter.unwrap_or_default();
                let is_selected = |listed: &&messages::Container| {
                    (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == listed.pod_sandbox_id)
                        && has(&listed.labels, &filter.label_selector)
                };
                let all = state.containers.iter().map(|(listed, _)| listed);
                let containers = all.filter(is_selected).cloned().collect();
                Ok(framed(&messages::ListContainersResponse { containers }))
            }
            method::CONTAINER_STATUS => {
                let id = read::<messages::ContainerStatusRequest>(body).container_id;
                let (_, status) = state.container(&id).ok_or_else(|| not_found("container", &id))?;
                let info = format!("{{\"pid\":{}}}", std::process::id());
                Ok(framed(&messages::ContainerStatusResponse {
                    status: Some(status.clone()),
                    info: BTreeMap::from([("info".to_owned(), info)]),
                }))
            }
            method::EXEC => {
                let request: messages::ExecRequest = read(body);
                // The URL contains the command, which is all that the streaming server needs.
                let url = format!("{}/exec/{}", self.streams, request.cmd.join("/"));
                Ok(framed(&messages::StreamingUrl { url }))
            }
            _ => Err((12, format!("unknown method {path}"))),
        }
    }
}

fn has(labels: &BTreeMap<String, String>, selector: &BTreeMap<String, String>) -> bool {
    selector
        .iter()
        .all(|(name, value)| labels.get(name) == Some(value))
}

fn ready_condition(name: &str) -> messages::RuntimeCondition {
    messages::RuntimeCondition {
        r#type: name.to_owned(),
        status: true,
        ..messages::RuntimeCondition::default()
    }
}

fn unready_network() -> messages::RuntimeCondition {
    messages::RuntimeCondition {
        r#type: "NetworkReady".to_owned(),
        status: false,
        reason: "NetworkPluginNotReady".to_owned(),
        message: "Network plugin returns error: no CNI configuration file in /etc/cni/net.d/. Has your network provider started?".to_owned(),
    }
}

fn status(network: messages::RuntimeCondition) -> messages::StatusResponse {
    let info = r#"{"sandboxImage":"registry.k8s.io/pause:3.10.1","crio":{"DefaultRuntime":"crun"}}"#;
    messages::StatusResponse {
        status: Some(messages::RuntimeStatus {
            conditions: vec![ready_condition("RuntimeReady"), network],
        }),
        info: BTreeMap::from([("config".to_owned(), info.to_owned())]),
    }
}
