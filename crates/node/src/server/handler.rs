//! Request handler: authenticates and authorizes requests, and dispatches them.
// upstream: pkg/kubelet/server/server.go InstallAuthFilter

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, future::BoxFuture};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use k3_pki::Identity;
use k8s_openapi::api::core::v1::Pod;
use kubecontroller::Clock;
use serde_json::{Value, json};

use super::{
    auth::KubeletAuth,
    container_logs::{ContainerLogOptions, HttpError},
    container_lookup,
    host::{HostInterface, no_runtime, with_timeout},
    request_attributes::{node_subresources, request_verb},
    route::{ContainerPath, Route, route},
    stats::{StatsProvider, StatsSnapshot, cadvisor_metrics, resource_metrics, summary},
    streams::{self, PortForwarder, RemoteCommand, StreamProtocol, Upgrade, UpgradeError},
};
use crate::runtime::{ContainerId, ExecSpec, PortStream, Runtime, RuntimeError, SandboxId};

/// Timeout of a command of `/run`.
const RUN_TIMEOUT: Duration = Duration::from_mins(2);
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// An HTTP response.
pub(super) type HttpResponse = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// A streaming session that runs on the upgraded connection after the response.
pub(super) type UpgradedSession = BoxFuture<'static, ()>;

/// Handles requests.
pub(super) struct Handler {
    pub auth: KubeletAuth,
    pub stats: StatsProvider,
    pub clock: Clock,
    pub host: Arc<dyn HostInterface>,
}

/// Query parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

/// Forwards ports of a sandbox.
struct SandboxPorts {
    runtime: Arc<dyn Runtime>,
    sandbox: SandboxId,
}

// --- Query ---

impl Query {
    pub(super) fn parse(text: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(text.unwrap_or_default().as_bytes());
        Query(pairs.into_owned().collect())
    }

    /// The first value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    fn all<'q, 'n>(&'q self, name: &'n str) -> impl Iterator<Item = &'q str> + use<'q, 'n> {
        let pairs = self.0.iter().filter(move |(found, _)| found == name);
        pairs.map(|(_, value)| value.as_str())
    }

    fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some("1")
    }
}

// --- Handler ---

impl Handler {
    /// Handles a request. The caller runs the session, if any, on the connection.
    pub(super) async fn handle(
        &self,
        mut request: Request<Incoming>,
        certificate: Option<&Identity>,
    ) -> (HttpResponse, Option<UpgradedSession>) {
        let upgrade = hyper::upgrade::on(&mut request);
        let (parts, _) = request.into_parts();
        if let Err(rejected) = self
            .authorize(&parts.method, parts.uri.path(), &parts.headers, certificate)
            .await
        {
            return (rejected, None);
        }
        let query = Query::parse(parts.uri.query());
        let path = parts.uri.path().to_owned();
        match route(&parts.method, &path) {
            Route::Exec(path) => self.exec(&path, &query, &parts.headers, upgrade).await,
            Route::Attach(path) => self.attach(&path, &query, &parts.headers, upgrade).await,
            Route::PortForward(path) => self.port_forward(&path, &query, &parts.headers, upgrade).await,
            other => (self.respond(other, &query).await, None),
        }
    }

    /// Authenticates and authorizes a request. The error is the response.
    async fn authorize(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        certificate: Option<&Identity>,
    ) -> Result<(), HttpResponse> {
        let user = match self.auth.authenticate(certificate, headers).await {
            Ok(Some(user)) => user,
            Ok(None) => return Err(text_response(401, "Unauthorized")),
            Err(error) => {
                tracing::warn!(%error, "failed to authenticate a request to the kubelet API");
                return Err(text_response(401, "Unauthorized"));
            }
        };
        let verb = request_verb(method);
        let subresources = node_subresources(path);
        let name = user.username.as_deref().unwrap_or_default();
        match self.auth.authorize(&user, verb, &subresources).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(text_response(
                403,
                format!(
                    "Forbidden (user={name}, verb={verb}, resource=nodes, subresource(s)=[{}])\n",
                    subresources.join(" ")
                ),
            )),
            Err(error) => {
                tracing::warn!(%error, "failed to authorize a request to the kubelet API");
                let subresource = subresources.first().copied().unwrap_or_default();
                Err(text_response(
                    500,
                    format!(
                        "Authorization error (user={name}, verb={verb}, resource=nodes, subresource={subresource})"
                    ),
                ))
            }
        }
    }

    /// Handles requests without a streaming session.
    async fn respond(&self, route: Route<'_>, query: &Query) -> HttpResponse {
        let result = match route {
            Route::Health => Ok(self.health()),
            Route::Pods => Ok(json_response(&pod_list(
                self.host.pods().iter().map(AsRef::as_ref),
            ))),
            Route::RunningPods => self.running_pods().await,
            Route::Logs(path) => self.logs(&path, query).await,
            Route::Run(path) => self.run(&path, query).await,
            Route::Summary => {
                self.stats_response(|stats, pods| json_response(&summary(stats, pods)))
                    .await
            }
            Route::Metrics => Ok(response(200, PROMETHEUS_TEXT, self.host.metrics())),
            Route::ResourceMetrics => {
                self.stats_response(|stats, pods| {
                    response(200, PROMETHEUS_TEXT, resource_metrics(stats, pods))
                })
                .await
            }
            Route::CadvisorMetrics => {
                self.stats_response(|stats, _| response(200, PROMETHEUS_TEXT, cadvisor_metrics(stats)))
                    .await
            }
            Route::ProbeMetrics => Ok(response(200, PROMETHEUS_TEXT, self.host.probe_metrics())),
            Route::Configz => Ok(json_response(
                &json!({"kubeletconfig": self.host.configuration()}),
            )),
            Route::MethodNotAllowed(allowed) => {
                let mut response = text_response(405, "Method Not Allowed");
                response
                    .headers_mut()
                    .insert(header::ALLOW, HeaderValue::from_static(allowed));
                Ok(response)
            }
            // Streaming requests were dispatched before.
            Route::Exec(_) | Route::Attach(_) | Route::PortForward(_) | Route::NotFound => {
                Ok(text_response(404, "404: Page Not Found"))
            }
        };
        result.unwrap_or_else(|(code, message)| text_response(code, message))
    }

    fn health(&self) -> HttpResponse {
        match self.host.problems().as_slice() {
            [] => text_response(200, "ok"),
            problems => text_response(500, format!("{}\nhealthz check failed\n", problems.join("\n"))),
        }
    }

    async fn stats_response(
        &self,
        render: impl FnOnce(&StatsSnapshot, &[Arc<Pod>]) -> HttpResponse,
    ) -> Result<HttpResponse, HttpError> {
        let stats = self.stats.snapshot(&*self.host).await.map_err(internal)?;
        Ok(render(&stats, &self.host.pods()))
    }

    /// Pods with running containers, from the runtime.
    // upstream: pkg/kubelet/server/server.go getRunningPods
    async fn running_pods(&self) -> Result<HttpResponse, HttpError> {
        let runtime = self.host.runtime().ok_or_else(|| internal(no_runtime()))?;
        let containers = with_timeout("listing containers", runtime.list_containers())
            .await
            .map_err(internal)?;
        let mut pods: Vec<(crate::PodIdentity, Vec<Value>)> = Vec::new();
        for container in containers
            .into_iter()
            .filter(crate::runtime::Container::is_running)
        {
            let item = json!({"name": container.name, "image": container.image, "resources": {}});
            match pods.iter_mut().find(|(pod, _)| *pod == container.pod) {
                Some((_, containers)) => containers.push(item),
                None => pods.push((container.pod, vec![item])),
            }
        }
        let items: Vec<Value> = pods
            .into_iter()
            .map(|(pod, containers)| {
                json!({
                    "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
                    "spec": {"containers": containers},
                    "status": {},
                })
            })
            .collect();
        Ok(json_response(
            &json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}),
        ))
    }

    // upstream: pkg/kubelet/server/server.go getContainerLogs
    async fn logs(&self, path: &ContainerPath<'_>, query: &Query) -> Result<HttpResponse, HttpError> {
        let options = ContainerLogOptions::parse(query, self.clock.now())?;
        let pod = self
            .host
            .pod(path.namespace, path.pod)
            .ok_or_else(|| (404, format!("pod {:?} does not exist", path.pod)))?;
        if container_lookup::container_tty(&pod, path.container).is_none() {
            let message = format!("container {:?} not found in pod {:?}", path.container, path.pod);
            return Err((404, message));
        }
        let id = container_lookup::container_for_logs(&pod, path.container, options.instance)
            .map_err(|error| (400, error.to_string()))?;
        let bad_request = |error: RuntimeError| (400, error.to_string());
        let runtime = self.host.runtime().ok_or_else(|| bad_request(no_runtime()))?;
        let lines = with_timeout(
            "opening a log",
            runtime.container_logs(&id, &options.runtime_options),
        )
        .await
        .map_err(bad_request)?;
        let chunks = options
            .format(lines)
            .map_ok(Frame::data)
            .map_err(|error| {
                tracing::debug!(%error, "log stream failed");
                io::Error::other(error)
            })
            // Not polled after its end.
            .fuse();
        let mut response = Response::new(StreamBody::new(chunks).boxed_unsync());
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(TEXT));
        Ok(response)
    }

    // upstream: pkg/kubelet/server/server.go getRun
    async fn run(&self, path: &ContainerPath<'_>, query: &Query) -> Result<HttpResponse, HttpError> {
        let (_, runtime, id) = self.find_container(path).await?;
        let command: Vec<String> = query
            .get("cmd")
            .unwrap_or_default()
            .split(' ')
            .map(ToOwned::to_owned)
            .collect();
        let output = runtime
            .exec_sync(&id, &command, RUN_TIMEOUT)
            .await
            .map_err(internal)?;
        let combined = [output.stdout, output.stderr].concat();
        if output.code != 0 {
            let message = format!("command {command:?} exited with {}", output.code);
            return Err((500, message));
        }
        Ok(response(200, JSON, combined))
    }

    /// A pod and its running container.
    async fn find_container(
        &self,
        path: &ContainerPath<'_>,
    ) -> Result<(Arc<Pod>, Arc<dyn Runtime>, ContainerId), HttpError> {
        let pod = self.find_pod(path)?;
        let runtime = self.host.runtime().ok_or_else(|| internal(no_runtime()))?;
        let id = self
            .host
            .container(&pod, path.container)
            .await
            .map_err(internal)?
            .ok_or_else(|| (500, format!("container not found ({:?})", path.container)))?;
        Ok((pod, runtime, id))
    }

    fn find_pod(&self, path: &ContainerPath<'_>) -> Result<Arc<Pod>, HttpError> {
        let pod = self
            .host
            .pod(path.namespace, path.pod)
            .ok_or_else(|| (404, "pod does not exist".to_owned()))?;
        if !path.uid.is_empty() && pod.metadata.uid.as_deref() != Some(path.uid) {
            return Err((404, "pod not found".to_owned()));
        }
        Ok(pod)
    }

    // upstream: pkg/kubelet/server/server.go getExec
    async fn exec(
        &self,
        path: &ContainerPath<'_>,
        query: &Query,
        headers: &HeaderMap,
        upgrade: OnUpgrade,
    ) -> (HttpResponse, Option<UpgradedSession>) {
        let prepared = async {
            let spec = parse_streams(query)?;
            let spec = ExecSpec {
                command: query.all("command").map(ToOwned::to_owned).collect(),
                ..spec
            };
            let (_, runtime, id) = self.find_container(path).await?;
            Ok((spec, runtime, id))
        };
        match prepared.await {
            Ok((spec, runtime, id)) => {
                let command = RemoteCommand::Exec(spec.command.clone());
                start_session(headers, upgrade, runtime, id, spec, command)
            }
            Err((code, message)) => (text_response(code, message), None),
        }
    }

    // upstream: pkg/kubelet/server/server.go getAttach
    async fn attach(
        &self,
        path: &ContainerPath<'_>,
        query: &Query,
        headers: &HeaderMap,
        upgrade: OnUpgrade,
    ) -> (HttpResponse, Option<UpgradedSession>) {
        let prepared = async {
            let spec = parse_streams(query)?;
            let (pod, runtime, id) = self.find_container(path).await.map_err(|(code, message)| {
                let is_missing = message.starts_with("container not found");
                let full = format!(
                    "container {} not found in pod {}_{}",
                    path.container, path.pod, path.namespace
                );
                (code, if is_missing { full } else { message })
            })?;
            // The pod spec decides whether the process has a terminal, not the request.
            let tty = container_lookup::container_tty(&pod, path.container).unwrap_or_default();
            let spec = ExecSpec {
                tty,
                stderr: spec.stderr && !tty,
                ..spec
            };
            Ok((spec, runtime, id))
        };
        match prepared.await {
            Ok((spec, runtime, id)) => {
                start_session(headers, upgrade, runtime, id, spec, RemoteCommand::Attach)
            }
            Err((code, message)) => (text_response(code, message), None),
        }
    }

    // upstream: pkg/kubelet/server/server.go getPortForward
    async fn port_forward(
        &self,
        path: &ContainerPath<'_>,
        query: &Query,
        headers: &HeaderMap,
        upgrade: OnUpgrade,
    ) -> (HttpResponse, Option<UpgradedSession>) {
        let prepared = async {
            let pod = self.find_pod(path)?;
            let runtime = self.host.runtime().ok_or_else(|| internal(no_runtime()))?;
            let sandbox = self.host.sandbox(&pod).await.map_err(internal)?.ok_or_else(|| {
                (
                    500,
                    format!("pod not found ({:?})", format!("{}_{}", path.pod, path.namespace)),
                )
            })?;
            Ok::<_, HttpError>(SandboxPorts { runtime, sandbox })
        };
        let ports = match prepared.await {
            Ok(ports) => ports,
            Err((code, message)) => return (text_response(code, message), None),
        };
        let agreed = match streams::negotiate_port_forward(headers) {
            Ok(agreed) => agreed,
            Err(error) => return (upgrade_error_response(&error), None),
        };
        let requested_ports = match (&agreed.protocol, parse_ports(query)) {
            (StreamProtocol::WebSocket(_), Ok(requested)) => requested,
            (StreamProtocol::WebSocket(_), Err(error)) => {
                return (text_response(400, error.to_string()), None);
            }
            _ => Vec::new(),
        };
        let Upgrade { protocol, headers } = agreed;
        let session = async move {
            let Some(io) = upgraded(upgrade).await else { return };
            if let Err(error) =
                streams::serve_port_forward(io, &protocol, &requested_ports, Arc::new(ports)).await
            {
                tracing::debug!(%error, "port-forward session failed");
            }
        };
        (switching_protocols(headers), Some(Box::pin(session)))
    }
}

/// Negotiates the protocol of exec or attach, and starts its session.
fn start_session(
    headers: &HeaderMap,
    upgrade: OnUpgrade,
    runtime: Arc<dyn Runtime>,
    id: ContainerId,
    spec: ExecSpec,
    command: RemoteCommand,
) -> (HttpResponse, Option<UpgradedSession>) {
    let Upgrade { protocol, headers } = match streams::negotiate_remote_command(headers) {
        Ok(agreed) => agreed,
        Err(error) => return (upgrade_error_response(&error), None),
    };
    let session = async move {
        let Some(io) = upgraded(upgrade).await else { return };
        let attach = async {
            match command {
                RemoteCommand::Exec(_) => with_timeout("starting a command", runtime.exec(&id, &spec)).await,
                RemoteCommand::Attach => {
                    with_timeout("attaching to a container", runtime.attach(&id, &spec)).await
                }
            }
        };
        let served = streams::serve_remote_command(io, &protocol, &spec, &command, Box::pin(attach));
        if let Err(error) = served.await {
            tracing::debug!(%error, "exec or attach session failed");
        }
    };
    (switching_protocols(headers), Some(Box::pin(session)))
}

async fn upgraded(upgrade: OnUpgrade) -> Option<TokioIo<hyper::upgrade::Upgraded>> {
    match upgrade.await {
        Ok(io) => Some(TokioIo::new(io)),
        Err(error) => {
            tracing::debug!(%error, "connection upgrade failed");
            None
        }
    }
}

/// Parses which streams of the process are requested.
fn parse_streams(query: &Query) -> Result<ExecSpec, HttpError> {
    let tty = query.is_set("tty");
    let spec = ExecSpec {
        command: Vec::new(),
        tty,
        stdin: query.is_set("input"),
        stdout: query.is_set("output"),
        // A terminal has a single output.
        stderr: query.is_set("error") && !tty,
    };
    if !spec.stdin && !spec.stdout && !spec.stderr {
        return Err((
            400,
            "you must specify at least 1 of stdin, stdout, stderr".to_owned(),
        ));
    }
    Ok(spec)
}

/// Why the ports of a port-forward request cannot be parsed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ParsePortsError {
    #[error("query parameter \"port\" is required")]
    Missing,
    #[error("query parameter \"port\" cannot be empty")]
    Empty,
    #[error("port {0:?} must be > 0")]
    Zero(String),
    #[error("unable to parse {list:?} as a port: strconv.ParseUint: parsing {port:?}: invalid syntax")]
    NotANumber { list: String, port: String },
}

/// Parses the ports of a port-forward request over WebSocket.
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/websocket.go NewV4Options
fn parse_ports(query: &Query) -> Result<Vec<u16>, ParsePortsError> {
    let mut ports = Vec::new();
    for listed in query.all("port") {
        if listed.is_empty() {
            return Err(ParsePortsError::Empty);
        }
        for port in listed.split(',') {
            match port.parse() {
                Ok(0) => return Err(ParsePortsError::Zero(listed.to_owned())),
                Ok(port) => ports.push(port),
                Err(_) => {
                    return Err(ParsePortsError::NotANumber {
                        list: listed.to_owned(),
                        port: port.to_owned(),
                    });
                }
            }
        }
    }
    if ports.is_empty() {
        return Err(ParsePortsError::Missing);
    }
    Ok(ports)
}

// --- SandboxPorts ---

#[async_trait]
impl PortForwarder for SandboxPorts {
    async fn connect(&self, port: u16) -> Result<Box<dyn PortStream>, RuntimeError> {
        with_timeout(
            "connecting to a port",
            self.runtime.port_forward(&self.sandbox, port),
        )
        .await
    }

    fn pod(&self) -> String {
        self.sandbox.to_string()
    }
}

// --- Responses ---

#[expect(clippy::needless_pass_by_value, reason = "used with `map_err`")]
fn internal(error: RuntimeError) -> HttpError {
    (500, error.to_string())
}

fn response(code: u16, media: &'static str, body: impl Into<Bytes>) -> HttpResponse {
    let body = Full::new(body.into()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

fn text_response(code: u16, text: impl Into<String>) -> HttpResponse {
    response(code, TEXT, text.into())
}

fn json_response(value: &Value) -> HttpResponse {
    response(200, JSON, value.to_string())
}

fn upgrade_error_response(error: &UpgradeError) -> HttpResponse {
    let mut response = text_response(error.code, error.message.clone());
    response.headers_mut().extend(error.headers());
    response
}

/// The response `101 Switching Protocols`.
fn switching_protocols(headers: HeaderMap) -> HttpResponse {
    let mut response = Response::new(
        Full::new(Bytes::new())
            .map_err(|never| match never {})
            .boxed_unsync(),
    );
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    response
}

fn pod_list<'p>(pods: impl Iterator<Item = &'p Pod>) -> Value {
    let items: Vec<Value> = pods
        .filter_map(|pod| {
            let mut item = serde_json::to_value(pod).ok()?;
            // Items of a list have no kind and apiVersion.
            if let Some(item) = item.as_object_mut() {
                item.remove("kind");
                item.remove("apiVersion");
            }
            Some(item)
        })
        .collect();
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(Some(text))
    }

    #[test]
    fn parses_requested_streams() {
        let spec = parse_streams(&query("input=1&output=1&error=1&tty=1")).unwrap();
        assert!(spec.stdin && spec.stdout && spec.tty && !spec.stderr);
        let error = parse_streams(&query("input=true")).unwrap_err();
        assert_eq!(
            error,
            (
                400,
                "you must specify at least 1 of stdin, stdout, stderr".to_owned()
            )
        );
    }

    #[test]
    fn parses_ports() {
        assert_eq!(parse_ports(&query("port=80,81&port=82")), Ok(vec![80, 81, 82]));
        for (text, message) in [
            ("", "query parameter \"port\" is required"),
            ("port=", "query parameter \"port\" cannot be empty"),
            ("port=0", "port \"0\" must be > 0"),
            (
                "port=x",
                "unable to parse \"x\" as a port: strconv.ParseUint: parsing \"x\": invalid syntax",
            ),
        ] {
            assert_eq!(parse_ports(&query(text)).unwrap_err().to_string(), message);
        }
    }
}
