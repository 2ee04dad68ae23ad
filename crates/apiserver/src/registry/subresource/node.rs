//! What only a node can answer: logs, commands, ports, proxies. Until nodes can be reached, the answer says so.

use std::fmt::Write;

use http::StatusCode;
use k3_api::{
    field::{Error, Path},
    kinds::builtin,
    rules::Tree,
    status::{Grouped, Status},
};
use serde_json::Value;

use crate::{
    authz::{Action, Decision, Object, What},
    http::{self as web, Answer, Body},
    registry::{Ask, Registry, Resource},
    server::Verb,
};

// --- Registry ---

impl Registry {
    /// The log of a container.
    pub(super) async fn log(&self, ask: &Ask) -> Result<Answer, Status> {
        check_log_options(ask)?;
        let pod = self.pod(ask).await?;
        container(&pod, ask.query.text("container"))?;
        let node = pod.at("spec").text("nodeName");
        if node.is_empty() {
            // Nothing ran, so nothing was written.
            let mut answer = web::text(200, "");
            *answer.status_mut() = StatusCode::NO_CONTENT;
            *answer.body_mut() = Body::Empty;
            answer.headers_mut().remove(http::header::CONTENT_TYPE);
            return Ok(answer);
        }
        Err(unreachable_node(node))
    }

    /// A command in a container, its terminal, or its ports.
    pub(super) async fn stream(&self, ask: &Ask, verb: Verb) -> Result<Answer, Status> {
        if verb != Verb::Create {
            self.require_create(ask)?;
        }
        self.admit_connection(ask).await?;
        let pod = self.pod(ask).await?;
        if ask.target.part() != "portforward" {
            container(&pod, ask.query.text("container"))?;
        }
        match pod.at("spec").text("nodeName") {
            "" => Err(Status::bad_request(format!(
                "pod {} does not have a host assigned",
                ask.target.name
            ))),
            node => Err(unreachable_node(node)),
        }
    }

    /// Refuses who may not create: a WebSocket begins with a GET, but it is no less than a POST.
    fn require_create(&self, ask: &Ask) -> Result<(), Status> {
        let target = &ask.target;
        let pod = Object {
            version: &target.kind.version,
            resource: &target.kind.plural,
            subresource: target.part(),
            namespace: &target.namespace,
            name: &target.name,
            ..Object::default()
        };
        let action = Action {
            user: &ask.user,
            verb: "create",
            what: What::Object(pod),
        };
        match self.authorizer.decide(&action) {
            Decision::Allow(_) => Ok(()),
            Decision::NoOpinion(reason) => {
                Err(Status::forbidden(Grouped::new("", "pods"), &target.name, reason))
            }
        }
    }

    /// A request to be passed on to a service, a pod or a node.
    pub(super) async fn proxy(&self, ask: &Ask) -> Result<Answer, Status> {
        self.admit_connection(ask).await?;
        self.fresh().await?;
        let resource = Resource::of(ask.target.kind.clone(), &self.caches);
        // A name may say how to talk and to which port: https:web:8443.
        let parts: Vec<_> = ask.target.name.split(':').collect();
        let ([_, name, _] | [name, _] | [name]) = parts.as_slice() else {
            return Err(Status::bad_request(format!(
                "invalid {} request {:?}",
                ask.target.kind.singular, ask.target.name
            )));
        };
        if ask.target.kind.kind == "Service" {
            return Err(Status::service_unavailable(format!(
                "no endpoints available for service {}",
                k3_api::go::quote(name)
            )));
        }
        let key = resource.key(&ask.target.namespace, name)?;
        let object = resource.cache.get(&key).ok_or_else(|| resource.not_found(name))?;
        match object.tree().at("status").text("podIP") {
            "" if ask.target.kind.kind == "Pod" => Err(Status::bad_request("address not allowed")),
            _ => Err(unreachable_node(name)),
        }
    }

    async fn pod(&self, ask: &Ask) -> Result<Value, Status> {
        self.fresh().await?;
        let pods = Resource::of(
            builtin().kind("", "v1", "Pod").expect("the kind is built in"),
            &self.caches,
        );
        let key = pods.key(&ask.target.namespace, &ask.target.name)?;
        let pod = pods
            .cache
            .get(&key)
            .ok_or_else(|| pods.not_found(&ask.target.name))?;
        Ok(pod.tree())
    }
}

fn unreachable_node(node: &str) -> Status {
    Status::service_unavailable(format!(
        "node {} cannot be reached: no node agent serves it; start one, then try again",
        k3_api::go::quote(node)
    ))
}

/// Finds the container that is meant, or says which there are.
fn container(pod: &Value, name: &str) -> Result<(), Status> {
    let pod_name = pod.at("metadata").text("name");
    let spec = pod.at("spec");
    let names = |list: &str| -> Vec<&str> { spec.items(list).iter().map(|item| item.text("name")).collect() };
    let (main, init, debug) = (
        names("containers"),
        names("initContainers"),
        names("ephemeralContainers"),
    );
    if name.is_empty() {
        if main.len() == 1 && init.is_empty() && debug.is_empty() {
            return Ok(());
        }
        let annotation = "kubectl.kubernetes.io/default-container";
        let preferred = pod.at("metadata").at("annotations").text(annotation);
        if main.len() == 1 || main.contains(&preferred) {
            return Ok(());
        }
        let mut why = format!(
            "a container name must be specified for pod {pod_name}, choose one of: [{}]",
            main.join(" ")
        );
        if !init.is_empty() {
            write!(why, " or one of the init containers: [{}]", init.join(" "))
                .expect("text can be written to memory");
        }
        if !debug.is_empty() {
            write!(why, " or one of the ephemeral containers: [{}]", debug.join(" "))
                .expect("text can be written to memory");
        }
        return Err(Status::bad_request(why));
    }
    if [main, init, debug].iter().any(|names| names.contains(&name)) {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "container {name} is not valid for pod {pod_name}"
    )))
}

fn check_log_options(ask: &Ask) -> Result<(), Status> {
    let query = &ask.query;
    let mut errors = Vec::new();
    if let Some(lines) = query.int("tailLines")?.filter(|lines| *lines < 0) {
        errors.push(Error::invalid(
            &Path::new("tailLines"),
            lines,
            "must be greater than or equal to 0",
        ));
    }
    if let Some(bytes) = query.int("limitBytes")?.filter(|bytes| *bytes < 1) {
        errors.push(Error::invalid(
            &Path::new("limitBytes"),
            bytes,
            "must be greater than 0",
        ));
    }
    if query.has("sinceSeconds") && query.has("sinceTime") {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(Error::forbidden(&Path::NOWHERE, detail));
    } else if let Some(seconds) = query.int("sinceSeconds")?.filter(|seconds| *seconds < 1) {
        errors.push(Error::invalid(
            &Path::new("sinceSeconds"),
            seconds,
            "must be greater than 0",
        ));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        Grouped::new("", "PodLogOptions"),
        &ask.target.name,
        &errors,
    ))
}
