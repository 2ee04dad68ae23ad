//! Who asks, whether they may, and what answers.

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
    access::Access,
    attributes::{subresources, verb},
    figures::{Sampler, cadvisor, resource, summary},
    logs::{Refused, Wanted},
    lookup::{Lookup, limited, no_runtime},
    route::{Place, Route, route},
    streams::{self, Carrier, Ports, Refusal, Task, Upgrade},
    subject,
};
use crate::runtime::{ContainerId, ExecSpec, PortStream, Runtime, RuntimeError, SandboxId};

/// How long a command of `/run` may take.
const RUN: Duration = Duration::from_mins(2);
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// An answer.
pub(super) type Reply = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// What follows when a connection became something else than HTTP.
pub(super) type Conversation = BoxFuture<'static, ()>;

/// What answers requests.
pub(super) struct Handler {
    pub access: Access,
    pub sampler: Sampler,
    pub clock: Clock,
    pub lookup: Arc<dyn Lookup>,
}

/// The parameters of a URL.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

/// The sandbox of a pod, as whose ports are.
struct Sandboxed {
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
    /// Answers a request; what follows on its connection is for the caller to carry out.
    pub(super) async fn handle(
        &self,
        mut request: Request<Incoming>,
        certificate: Option<&Identity>,
    ) -> (Reply, Option<Conversation>) {
        let upgrade = hyper::upgrade::on(&mut request);
        let (parts, _) = request.into_parts();
        if let Err(refused) = self
            .admit(&parts.method, parts.uri.path(), &parts.headers, certificate)
            .await
        {
            return (refused, None);
        }
        let query = Query::parse(parts.uri.query());
        let path = parts.uri.path().to_owned();
        match route(&parts.method, &path) {
            Route::Exec(place) => self.exec(&place, &query, &parts.headers, upgrade).await,
            Route::Attach(place) => self.attach(&place, &query, &parts.headers, upgrade).await,
            Route::PortForward(place) => self.port_forward(&place, &query, &parts.headers, upgrade).await,
            other => (self.plain(other, &query).await, None),
        }
    }

    /// Lets in who is known and may do this.
    async fn admit(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        certificate: Option<&Identity>,
    ) -> Result<(), Reply> {
        let user = match self.access.authenticate(certificate, headers).await {
            Ok(Some(user)) => user,
            Ok(None) => return Err(text(401, "Unauthorized")),
            Err(error) => {
                tracing::warn!(%error, "a client of the node's API cannot be told apart");
                return Err(text(401, "Unauthorized"));
            }
        };
        let verb = verb(method);
        let parts = subresources(path);
        let name = user.username.as_deref().unwrap_or_default();
        match self.access.authorize(&user, verb, &parts).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(text(
                403,
                format!(
                    "Forbidden (user={name}, verb={verb}, resource=nodes, subresource(s)=[{}])\n",
                    parts.join(" ")
                ),
            )),
            Err(error) => {
                tracing::warn!(%error, "it cannot be found out what a client may do");
                let part = parts.first().copied().unwrap_or_default();
                Err(text(
                    500,
                    format!(
                        "Authorization error (user={name}, verb={verb}, resource=nodes, subresource={part})"
                    ),
                ))
            }
        }
    }

    /// Answers what is no conversation.
    async fn plain(&self, route: Route<'_>, query: &Query) -> Reply {
        let answered = match route {
            Route::Health => Ok(self.health()),
            Route::Pods => Ok(json_reply(&pod_list(
                self.lookup.pods().iter().map(AsRef::as_ref),
            ))),
            Route::RunningPods => self.running_pods().await,
            Route::Logs(place) => self.logs(&place, query).await,
            Route::Run(place) => self.run(&place, query).await,
            Route::Summary => {
                self.figures_reply(|figures, pods| json_reply(&summary(figures, pods)))
                    .await
            }
            Route::Metrics => Ok(reply(200, METRICS, self.lookup.metrics())),
            Route::ResourceMetrics => {
                self.figures_reply(|figures, pods| reply(200, METRICS, resource(figures, pods)))
                    .await
            }
            Route::CadvisorMetrics => {
                self.figures_reply(|figures, _| reply(200, METRICS, cadvisor(figures)))
                    .await
            }
            Route::ProbeMetrics => Ok(reply(200, METRICS, self.lookup.probe_metrics())),
            Route::Settings => Ok(json_reply(&json!({"kubeletconfig": self.lookup.settings()}))),
            Route::OtherMethod(allowed) => {
                let mut refused = text(405, "Method Not Allowed");
                refused
                    .headers_mut()
                    .insert(header::ALLOW, HeaderValue::from_static(allowed));
                Ok(refused)
            }
            // Conversations were seen to before.
            Route::Exec(_) | Route::Attach(_) | Route::PortForward(_) | Route::Nowhere => {
                Ok(text(404, "404: Page Not Found"))
            }
        };
        answered.unwrap_or_else(|(code, message)| text(code, message))
    }

    fn health(&self) -> Reply {
        match self.lookup.problems().as_slice() {
            [] => text(200, "ok"),
            problems => text(500, format!("{}\nhealthz check failed\n", problems.join("\n"))),
        }
    }

    async fn figures_reply(
        &self,
        show: impl FnOnce(&super::figures::Figures, &[Arc<Pod>]) -> Reply,
    ) -> Result<Reply, Refused> {
        let figures = self.sampler.figures(&*self.lookup).await.map_err(internal)?;
        Ok(show(&figures, &self.lookup.pods()))
    }

    /// The pods of which something runs, as the runtime knows them.
    async fn running_pods(&self) -> Result<Reply, Refused> {
        let runtime = self.lookup.runtime().ok_or_else(|| internal(no_runtime()))?;
        let containers = limited("listing containers", runtime.containers())
            .await
            .map_err(internal)?;
        let mut pods: Vec<(crate::PodIdentity, Vec<Value>)> = Vec::new();
        for container in containers
            .into_iter()
            .filter(crate::runtime::Container::is_running)
        {
            let shown = json!({"name": container.name, "image": container.image, "resources": {}});
            match pods.iter_mut().find(|(pod, _)| *pod == container.pod) {
                Some((_, containers)) => containers.push(shown),
                None => pods.push((container.pod, vec![shown])),
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
        Ok(json_reply(
            &json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}),
        ))
    }

    async fn logs(&self, place: &Place<'_>, query: &Query) -> Result<Reply, Refused> {
        let wanted = Wanted::read(query, self.clock.now())?;
        let pod = self
            .lookup
            .pod(place.namespace, place.pod)
            .ok_or_else(|| (404, format!("pod {:?} does not exist", place.pod)))?;
        if subject::has_terminal(&pod, place.container).is_none() {
            let why = format!("container {:?} not found in pod {:?}", place.container, place.pod);
            return Err((404, why));
        }
        let id = subject::logged(&pod, place.container, wanted.previous).map_err(|why| (400, why))?;
        let refused = |error: RuntimeError| (400, error.to_string());
        let runtime = self.lookup.runtime().ok_or_else(|| refused(no_runtime()))?;
        let lines = limited("opening a log", runtime.logs(&id, &wanted.options))
            .await
            .map_err(refused)?;
        let pieces = wanted
            .written(lines)
            .map_ok(Frame::data)
            .map_err(|error| {
                tracing::debug!(%error, "a log broke off");
                io::Error::other(error)
            })
            // The stream must not hold the runtime when it has ended.
            .fuse();
        let mut answer = Response::new(StreamBody::new(pieces).boxed_unsync());
        answer
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(TEXT));
        Ok(answer)
    }

    async fn run(&self, place: &Place<'_>, query: &Query) -> Result<Reply, Refused> {
        let (_, runtime, id) = self.find(place).await?;
        let command: Vec<String> = query
            .get("cmd")
            .unwrap_or_default()
            .split(' ')
            .map(ToOwned::to_owned)
            .collect();
        let output = runtime.exec_sync(&id, &command, RUN).await.map_err(internal)?;
        let all = [output.stdout, output.stderr].concat();
        if output.code != 0 {
            let why = format!("command {command:?} exited with {}", output.code);
            return Err((500, why));
        }
        Ok(reply(200, JSON, all))
    }

    /// The pod that is meant, and its container that runs.
    async fn find(&self, place: &Place<'_>) -> Result<(Arc<Pod>, Arc<dyn Runtime>, ContainerId), Refused> {
        let pod = self.find_pod(place)?;
        let runtime = self.lookup.runtime().ok_or_else(|| internal(no_runtime()))?;
        let id = self
            .lookup
            .container(&pod, place.container)
            .await
            .map_err(internal)?
            .ok_or_else(|| (500, format!("container not found ({:?})", place.container)))?;
        Ok((pod, runtime, id))
    }

    fn find_pod(&self, place: &Place<'_>) -> Result<Arc<Pod>, Refused> {
        let pod = self
            .lookup
            .pod(place.namespace, place.pod)
            .ok_or_else(|| (404, "pod does not exist".to_owned()))?;
        if !place.uid.is_empty() && pod.metadata.uid.as_deref() != Some(place.uid) {
            return Err((404, "pod not found".to_owned()));
        }
        Ok(pod)
    }

    async fn exec(
        &self,
        place: &Place<'_>,
        query: &Query,
        headers: &HeaderMap,
        upgrade: OnUpgrade,
    ) -> (Reply, Option<Conversation>) {
        let prepared = async {
            let spec = wanted_streams(query)?;
            let spec = ExecSpec {
                command: query.all("command").map(ToOwned::to_owned).collect(),
                ..spec
            };
            let (_, runtime, id) = self.find(place).await?;
            Ok((spec, runtime, id))
        };
        match prepared.await {
            Ok((spec, runtime, id)) => {
                let task = Task::Exec(spec.command.clone());
                begin(headers, upgrade, runtime, id, spec, task)
            }
            Err((code, message)) => (text(code, message), None),
        }
    }

    async fn attach(
        &self,
        place: &Place<'_>,
        query: &Query,
        headers: &HeaderMap,
        upgrade: OnUpgrade,
    ) -> (Reply, Option<Conversation>) {
        let prepared = async {
            let spec = wanted_streams(query)?;
            let (pod, runtime, id) = self.find(place).await.map_err(|(code, message)| {
                let is_missing = message.starts_with("container not found");
                let full = format!(
                    "container {} not found in pod {}_{}",
                    place.container, place.pod, place.namespace
                );
                (code, if is_missing { full } else { message })
            })?;
            // Whether a process has a terminal was decided when it began.
            let tty = subject::has_terminal(&pod, place.container).unwrap_or_default();
            let spec = ExecSpec {
                tty,
                stderr: spec.stderr && !tty,
                ..spec
            };
            Ok((spec, runtime, id))
        };
        match prepared.await {
            Ok((spec, runtime, id)) => begin(headers, upgrade, runtime, id, spec, Task::Attach),
            Err((code, message)) => (text(code, message), None),
        }
    }

    async fn port_forward(
        &self,
        place: &Place<'_>,
        query: &Query,
        headers: &HeaderMap,
        upgrade: OnUpgrade,
    ) -> (Reply, Option<Conversation>) {
        let prepared = async {
            let pod = self.find_pod(place)?;
            let runtime = self.lookup.runtime().ok_or_else(|| internal(no_runtime()))?;
            let sandbox = self
                .lookup
                .sandbox(&pod)
                .await
                .map_err(internal)?
                .ok_or_else(|| {
                    (
                        500,
                        format!(
                            "pod not found ({:?})",
                            format!("{}_{}", place.pod, place.namespace)
                        ),
                    )
                })?;
            Ok::<_, Refused>(Sandboxed { runtime, sandbox })
        };
        let ports = match prepared.await {
            Ok(ports) => ports,
            Err((code, message)) => return (text(code, message), None),
        };
        let agreed = match streams::port_forward(headers) {
            Ok(agreed) => agreed,
            Err(refusal) => return (refused(&refusal), None),
        };
        let asked = match (&agreed.carrier, asked_ports(query)) {
            (Carrier::WebSocket(_), Ok(asked)) => asked,
            (Carrier::WebSocket(_), Err(why)) => return (text(400, why), None),
            _ => Vec::new(),
        };
        let Upgrade { carrier, headers } = agreed;
        let conversation = async move {
            let Some(io) = upgraded(upgrade).await else { return };
            if let Err(error) = streams::forward(io, &carrier, &asked, Arc::new(ports)).await {
                tracing::debug!(%error, "forwarding of ports ended");
            }
        };
        (switched(headers), Some(Box::pin(conversation)))
    }
}

/// Agrees on how to talk to a process, and begins.
fn begin(
    headers: &HeaderMap,
    upgrade: OnUpgrade,
    runtime: Arc<dyn Runtime>,
    id: ContainerId,
    spec: ExecSpec,
    task: Task,
) -> (Reply, Option<Conversation>) {
    let Upgrade { carrier, headers } = match streams::remote_command(headers) {
        Ok(agreed) => agreed,
        Err(refusal) => return (refused(&refusal), None),
    };
    let conversation = async move {
        let Some(io) = upgraded(upgrade).await else { return };
        let begin = async {
            match task {
                Task::Exec(_) => limited("beginning a command", runtime.exec(&id, &spec)).await,
                Task::Attach => limited("attaching to a container", runtime.attach(&id, &spec)).await,
            }
        };
        let talk = streams::converse(io, &carrier, &spec, &task, Box::pin(begin));
        if let Err(error) = talk.await {
            tracing::debug!(%error, "a conversation with a process broke off");
        }
    };
    (switched(headers), Some(Box::pin(conversation)))
}

async fn upgraded(upgrade: OnUpgrade) -> Option<TokioIo<hyper::upgrade::Upgraded>> {
    match upgrade.await {
        Ok(io) => Some(TokioIo::new(io)),
        Err(error) => {
            tracing::debug!(%error, "a connection did not become a conversation");
            None
        }
    }
}

/// Which streams of a process are wanted.
fn wanted_streams(query: &Query) -> Result<ExecSpec, Refused> {
    let tty = query.is_set("tty");
    let spec = ExecSpec {
        command: Vec::new(),
        tty,
        stdin: query.is_set("input"),
        stdout: query.is_set("output"),
        // A terminal has one output only.
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

/// The ports that a WebSocket asks for.
fn asked_ports(query: &Query) -> Result<Vec<u16>, String> {
    let mut ports = Vec::new();
    for listed in query.all("port") {
        if listed.is_empty() {
            return Err("query parameter \"port\" cannot be empty".to_owned());
        }
        for port in listed.split(',') {
            match port.parse() {
                Ok(0) => return Err(format!("port {listed:?} must be > 0")),
                Ok(port) => ports.push(port),
                Err(_) => {
                    return Err(format!(
                        "unable to parse {listed:?} as a port: strconv.ParseUint: parsing {port:?}: invalid syntax"
                    ));
                }
            }
        }
    }
    if ports.is_empty() {
        return Err("query parameter \"port\" is required".to_owned());
    }
    Ok(ports)
}

// --- Sandboxed ---

#[async_trait]
impl Ports for Sandboxed {
    async fn connect(&self, port: u16) -> Result<Box<dyn PortStream>, RuntimeError> {
        limited("connecting to a port", self.runtime.connect(&self.sandbox, port)).await
    }

    fn pod(&self) -> String {
        self.sandbox.to_string()
    }
}

// --- Answers ---

#[expect(
    clippy::needless_pass_by_value,
    reason = "who is called back takes what there is"
)]
fn internal(error: RuntimeError) -> Refused {
    (500, error.to_string())
}

fn reply(code: u16, media: &'static str, body: impl Into<Bytes>) -> Reply {
    let body = Full::new(body.into()).map_err(|never| match never {});
    let mut reply = Response::new(body.boxed_unsync());
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    reply
}

fn text(code: u16, text: impl Into<String>) -> Reply {
    reply(code, TEXT, text.into())
}

fn json_reply(value: &Value) -> Reply {
    reply(200, JSON, value.to_string())
}

fn refused(refusal: &Refusal) -> Reply {
    let mut reply = text(refusal.code, refusal.message.clone());
    reply.headers_mut().extend(refusal.headers());
    reply
}

/// The answer after which a connection speaks something else.
fn switched(headers: HeaderMap) -> Reply {
    let mut reply = Response::new(
        Full::new(Bytes::new())
            .map_err(|never| match never {})
            .boxed_unsync(),
    );
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *reply.headers_mut() = headers;
    reply
}

fn pod_list<'p>(pods: impl Iterator<Item = &'p Pod>) -> Value {
    let items: Vec<Value> = pods
        .filter_map(|pod| {
            let mut item = serde_json::to_value(pod).ok()?;
            // Items of a list do not say again what they are.
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
    fn a_process_has_the_streams_that_are_asked_for() {
        let spec = wanted_streams(&query("input=1&output=1&error=1&tty=1")).unwrap();
        assert!(spec.stdin && spec.stdout && spec.tty && !spec.stderr);
        let error = wanted_streams(&query("input=true")).unwrap_err();
        assert_eq!(
            error,
            (
                400,
                "you must specify at least 1 of stdin, stdout, stderr".to_owned()
            )
        );
    }

    #[test]
    fn ports_are_numbers() {
        assert_eq!(asked_ports(&query("port=80,81&port=82")), Ok(vec![80, 81, 82]));
        for (text, why) in [
            ("", "query parameter \"port\" is required"),
            ("port=", "query parameter \"port\" cannot be empty"),
            ("port=0", "port \"0\" must be > 0"),
            (
                "port=x",
                "unable to parse \"x\" as a port: strconv.ParseUint: parsing \"x\": invalid syntax",
            ),
        ] {
            assert_eq!(asked_ports(&query(text)), Err(why.to_owned()));
        }
    }
}
