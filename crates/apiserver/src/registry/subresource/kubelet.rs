//! Subresources served by the kubelet: log, exec, attach, portforward.

use http::{HeaderValue, StatusCode, header};
use k3_api::{
    field::{Error, Path},
    kinds::builtin,
    status::{GroupResource, Status},
    strategy::Tree,
};
use serde_json::Value;

use super::{
    connect::ConnectStorage,
    proxy::{failed_call, failed_stream},
};
use crate::{
    authz::{AuthorizationAttributes, AuthorizationTarget, Decision, ResourceAttributes},
    http::{self as web, HttpResponse, ResponseBody},
    outgoing::{NodeCertificateCheck, ProxyLocation, ProxyRequest},
    pipeline::Verb,
    registry::{RequestContext, Resource, freshness::read_index},
    request::encode,
};

/// How much of an error response is read.
const MAX_MESSAGE_BYTES: usize = 50_000;

// --- ConnectStorage ---

impl ConnectStorage {
    /// The log of a container.
    // upstream: pkg/registry/core/pod/strategy.go LogLocation
    pub(crate) async fn log(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        check_log_options(ctx)?;
        let pod = self.pod(ctx).await?;
        let container = container(&pod, ctx.query.text("container"))?;
        let node = pod.at("spec").text("nodeName");
        if node.is_empty() {
            // Nothing ran, so nothing was written.
            let mut answer = web::text(200, "");
            *answer.status_mut() = StatusCode::NO_CONTENT;
            *answer.body_mut() = ResponseBody::Empty;
            answer.headers_mut().remove(header::CONTENT_TYPE);
            return Ok(answer);
        }
        let path = format!(
            "/containerLogs/{}/{}/{container}",
            ctx.target.namespace, ctx.target.name
        );
        let check = match ctx.query.flag("insecureSkipTLSVerifyBackend") {
            Some(true) => NodeCertificateCheck::Skip,
            Some(false) | None => NodeCertificateCheck::Verify,
        };
        let location = self.node_location(node, check, path, log_query(ctx)?)?;
        let mut answer = match location.get().await {
            Ok(answer) => answer,
            Err(failed) => return Err(failed_call("Get", &location, &failed)),
        };
        if !(200..=206).contains(&answer.status().as_u16()) {
            return Err(failed_log(answer, &ctx.target.name).await);
        }
        *answer.status_mut() = StatusCode::OK;
        answer.headers_mut().clear();
        web::set(
            &mut answer,
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain"),
        );
        Ok(answer)
    }

    /// A command in a container, its terminal, or its ports.
    // upstream: pkg/registry/core/pod/rest/subresources.go Connect; ExecREST, AttachREST, PortForwardREST
    pub(crate) async fn stream(
        &self,
        ctx: &RequestContext,
        verb: Verb,
        passed: ProxyRequest,
    ) -> Result<HttpResponse, Status> {
        self.admit(ctx, "").await?;
        if verb != Verb::Create {
            self.require_create(ctx)?;
        }
        let pod = self.pod(ctx).await?;
        let part = ctx.target.part();
        let mut path = match part {
            "portforward" => format!("/portForward/{}/{}", ctx.target.namespace, ctx.target.name),
            part => format!("/{part}/{}/{}", ctx.target.namespace, ctx.target.name),
        };
        if part != "portforward" {
            let container = container(&pod, ctx.query.text("container"))?;
            path = format!("{path}/{container}");
        }
        let node = match pod.at("spec").text("nodeName") {
            "" => {
                return Err(Status::bad_request(format!(
                    "pod {} does not have a host assigned",
                    ctx.target.name
                )));
            }
            node => node,
        };
        let location = self.node_location(node, NodeCertificateCheck::Verify, path, stream_query(ctx)?)?;
        if !passed.wants_upgrade() {
            return Err(Status::bad_request("Upgrade request required"));
        }
        location.converse(passed).await.map_err(failed_stream)
    }

    fn node_location(
        &self,
        node: &str,
        check: NodeCertificateCheck,
        path: String,
        query: String,
    ) -> Result<ProxyLocation, Status> {
        if !self.nodes.can_be_called() {
            return Err(crate::outgoing::unreachable_node(node));
        }
        let reached = self.nodes.find(node)?;
        self.nodes.location(node, reached, check, path, query)
    }

    /// Refuses who may not create: a WebSocket begins with a GET, but it is no less than a POST.
    // upstream: pkg/registry/core/pod/rest/authorize.go ensureAuthorizedForVerb
    fn require_create(&self, ctx: &RequestContext) -> Result<(), Status> {
        let target = &ctx.target;
        let pod = ResourceAttributes {
            version: &target.kind.version,
            resource: &target.kind.plural,
            subresource: target.part(),
            namespace: &target.namespace,
            name: &target.name,
            ..ResourceAttributes::default()
        };
        let action = AuthorizationAttributes {
            user: &ctx.user,
            verb: "create",
            what: AuthorizationTarget::Resource(pod),
        };
        match self.authorizer.decide(&action) {
            Decision::Allow(_) => Ok(()),
            Decision::NoOpinion(reason) => Err(Status::forbidden(
                GroupResource::new("", "pods"),
                &target.name,
                reason,
            )),
        }
    }

    async fn pod(&self, ctx: &RequestContext) -> Result<Value, Status> {
        read_index(&self.caches).await?;
        let pods = Resource::of(
            builtin().kind("", "v1", "Pod").expect("the kind is built in"),
            &self.caches,
        );
        let key = pods.key(&ctx.target.namespace, &ctx.target.name)?;
        let pod = pods
            .cache
            .get(&key)
            .ok_or_else(|| pods.not_found(&ctx.target.name))?;
        Ok(pod.tree())
    }
}

/// The error of a node that does not return a log.
async fn failed_log(answer: HttpResponse, name: &str) -> Status {
    let code = answer.status().as_u16();
    let message = web::body_text(answer, MAX_MESSAGE_BYTES).await;
    match code {
        500 => Status::internal_error(message),
        400 => Status::bad_request(message),
        code => {
            let mut status = Status::generic(code, &message);
            status.message = format!("{} ( pods/log {name})", status.message);
            if let Some(details) = &mut status.details {
                name.clone_into(&mut details.name);
                "pods/log".clone_into(&mut details.kind);
            }
            status
        }
    }
}

/// The options of a log as a node reads them.
fn log_query(ctx: &RequestContext) -> Result<String, Status> {
    let query = &ctx.query;
    let mut pairs: Vec<(&str, String)> = Vec::new();
    for flag in ["follow", "previous", "timestamps"] {
        if query.flag(flag).unwrap_or_default() {
            pairs.push((flag, "true".to_owned()));
        }
    }
    for number in ["sinceSeconds", "tailLines", "limitBytes"] {
        if let Some(value) = query.int(number)? {
            pairs.push((number, value.to_string()));
        }
    }
    if let Some(time) = query.time("sinceTime")? {
        pairs.push(("sinceTime", time.truncated().to_string()));
    }
    Ok(encode(&mut pairs))
}

/// The options of a stream as a node reads them.
fn stream_query(ctx: &RequestContext) -> Result<String, Status> {
    let query = &ctx.query;
    let mut pairs: Vec<(&str, String)> = Vec::new();
    match ctx.target.part() {
        "portforward" => {
            let ports: Vec<_> = query.ports("ports")?.iter().map(u16::to_string).collect();
            if !ports.is_empty() {
                pairs.push(("port", ports.join(",")));
            }
        }
        part => {
            for (name, flag) in [
                ("input", "stdin"),
                ("output", "stdout"),
                ("error", "stderr"),
                ("tty", "tty"),
            ] {
                if query.flag(flag).unwrap_or_default() {
                    pairs.push((name, "1".to_owned()));
                }
            }
            if part == "exec" {
                pairs.extend(query.all("command").map(|word| ("command", word.to_owned())));
            }
        }
    }
    Ok(encode(&mut pairs))
}

/// Finds the named container, or lists the available ones.
// upstream: pkg/registry/core/pod/strategy.go validateContainer, podHasContainerWithName
fn container<'p>(pod: &'p Value, name: &'p str) -> Result<&'p str, Status> {
    let pod_name = pod.at("metadata").text("name");
    let spec = pod.at("spec");
    let names =
        |list: &str| -> Vec<&'p str> { spec.items(list).iter().map(|item| item.text("name")).collect() };
    let main = names("containers");
    let all = [
        names("initContainers"),
        main.clone(),
        names("ephemeralContainers"),
    ]
    .concat();
    match (name, main.as_slice()) {
        ("", [only]) => Ok(only),
        ("", []) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod_name}"
        ))),
        ("", _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod_name}, choose one of: [{}]",
            all.join(" ")
        ))),
        (name, _) if all.contains(&name) => Ok(name),
        (name, _) => Err(Status::bad_request(format!(
            "container {name} is not valid for pod {pod_name}"
        ))),
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidatePodLogOptions
fn check_log_options(ctx: &RequestContext) -> Result<(), Status> {
    let query = &ctx.query;
    let seconds = query.int("sinceSeconds")?;
    query.time("sinceTime")?;
    let lines = query.int("tailLines")?;
    let bytes = query.int("limitBytes")?;
    let mut errors = Vec::new();
    if let Some(lines) = lines.filter(|lines| *lines < 0) {
        errors.push(Error::invalid(
            &Path::new("tailLines"),
            lines,
            "must be greater than or equal to 0",
        ));
    }
    if let Some(bytes) = bytes.filter(|bytes| *bytes < 1) {
        errors.push(Error::invalid(
            &Path::new("limitBytes"),
            bytes,
            "must be greater than 0",
        ));
    }
    if seconds.is_some() && query.has("sinceTime") {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(Error::forbidden(&Path::new(""), detail));
    } else if let Some(seconds) = seconds.filter(|seconds| *seconds < 1) {
        errors.push(Error::invalid(
            &Path::new("sinceSeconds"),
            seconds,
            "must be greater than 0",
        ));
    }
    if query.has("stream") {
        errors.push(Error::forbidden(&Path::new("stream"), "may not be specified"));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        GroupResource::new("", "PodLogOptions"),
        &ctx.target.name,
        &errors,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selects_container_or_requires_name() {
        let pod = |main: &[&str], init: &[&str]| {
            let named =
                |names: &[&str]| -> Vec<Value> { names.iter().map(|name| json!({"name": name})).collect() };
            json!({"metadata": {"name": "p"}, "spec": {"containers": named(main), "initContainers": named(init)}})
        };
        for (pod, name, expected) in [
            (pod(&["a"], &["i"]), "", Ok("a")),
            (pod(&["a"], &["i"]), "i", Ok("i")),
            (
                pod(&["a", "b"], &["i"]),
                "",
                Err("a container name must be specified for pod p, choose one of: [i a b]"),
            ),
            (pod(&["a"], &[]), "x", Err("container x is not valid for pod p")),
            (
                pod(&[], &[]),
                "",
                Err("a container name must be specified for pod p"),
            ),
        ] {
            let found = container(&pod, name).map_err(|status| status.message);
            assert_eq!(found, expected.map_err(ToOwned::to_owned));
        }
    }
}
